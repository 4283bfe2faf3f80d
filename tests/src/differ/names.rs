//! The names of flags, options and errors in the text of programs and outcomes.

use std::fmt::Write;

type Table = &'static [(&'static str, i64)];

macro_rules! names {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name as i64)),*] };
}

const MESSAGE_FLAGS: Table = names! {
    MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_CTRUNC MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL MSG_CONFIRM
    MSG_ERRQUEUE MSG_NOSIGNAL MSG_MORE MSG_WAITFORONE MSG_ZEROCOPY MSG_FASTOPEN MSG_CMSG_CLOEXEC
};

/// poll and epoll share these values.
const EVENTS: Table = &[
    ("IN", 1),
    ("PRI", 2),
    ("OUT", 4),
    ("ERR", 8),
    ("HUP", 0x10),
    ("NVAL", 0x20),
    ("RDNORM", 0x40),
    ("RDBAND", 0x80),
    ("WRNORM", 0x100),
    ("WRBAND", 0x200),
    ("RDHUP", 0x2000),
    ("EXCLUSIVE", 1 << 28),
    ("ONESHOT", 1 << 30),
    ("ET", 1 << 31),
];

const OPEN_FLAGS: Table = names! { O_NONBLOCK O_ASYNC O_APPEND };

/// `option=` in programs: level and number.
pub const OPTIONS: &[(&str, i32, i32)] = &[
    ("SO_DEBUG", libc::SOL_SOCKET, libc::SO_DEBUG),
    ("SO_TYPE", libc::SOL_SOCKET, libc::SO_TYPE),
    ("SO_ERROR", libc::SOL_SOCKET, libc::SO_ERROR),
    ("SO_BROADCAST", libc::SOL_SOCKET, libc::SO_BROADCAST),
    ("SO_KEEPALIVE", libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    ("SO_OOBINLINE", libc::SOL_SOCKET, libc::SO_OOBINLINE),
    ("SO_REUSEADDR", libc::SOL_SOCKET, libc::SO_REUSEADDR),
    ("SO_REUSEPORT", libc::SOL_SOCKET, libc::SO_REUSEPORT),
    ("SO_PRIORITY", libc::SOL_SOCKET, libc::SO_PRIORITY),
    ("SO_RCVLOWAT", libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    ("SO_SNDLOWAT", libc::SOL_SOCKET, libc::SO_SNDLOWAT),
    ("SO_RCVTIMEO", libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    ("SO_SNDTIMEO", libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    ("SO_RCVBUF", libc::SOL_SOCKET, libc::SO_RCVBUF),
    ("SO_SNDBUF", libc::SOL_SOCKET, libc::SO_SNDBUF),
    ("SO_LINGER", libc::SOL_SOCKET, libc::SO_LINGER),
    ("SO_ACCEPTCONN", libc::SOL_SOCKET, libc::SO_ACCEPTCONN),
    ("SO_DOMAIN", libc::SOL_SOCKET, libc::SO_DOMAIN),
    ("SO_PROTOCOL", libc::SOL_SOCKET, libc::SO_PROTOCOL),
    ("SO_TIMESTAMP", libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    ("SO_ZEROCOPY", libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    ("SO_BUSY_POLL", libc::SOL_SOCKET, libc::SO_BUSY_POLL),
    ("TCP_NODELAY", libc::IPPROTO_TCP, libc::TCP_NODELAY),
    ("TCP_CORK", libc::IPPROTO_TCP, libc::TCP_CORK),
    ("TCP_QUICKACK", libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    ("TCP_KEEPIDLE", libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (
        "TCP_USER_TIMEOUT",
        libc::IPPROTO_TCP,
        libc::TCP_USER_TIMEOUT,
    ),
    ("TCP_LINGER2", libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (
        "TCP_NOTSENT_LOWAT",
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
    ),
    ("TCP_INQ", libc::IPPROTO_TCP, libc::TCP_INQ),
    ("TCP_FASTOPEN", libc::IPPROTO_TCP, libc::TCP_FASTOPEN),
    ("IP_TOS", libc::IPPROTO_IP, libc::IP_TOS),
    ("IP_TTL", libc::IPPROTO_IP, libc::IP_TTL),
    ("NO_SUCH_OPTION", libc::SOL_SOCKET, 4711),
    ("NO_SUCH_LEVEL", 4711, 1),
    ("SO_PASSCRED", libc::SOL_SOCKET, libc::SO_PASSCRED),
    ("SO_PEERCRED", libc::SOL_SOCKET, libc::SO_PEERCRED),
    ("SO_PEEK_OFF", libc::SOL_SOCKET, libc::SO_PEEK_OFF),
    ("SO_PASSSEC", libc::SOL_SOCKET, libc::SO_PASSSEC),
    ("SO_PEERGROUPS", libc::SOL_SOCKET, 59),
    ("SO_PASSPIDFD", libc::SOL_SOCKET, 76),
    ("SO_PEERPIDFD", libc::SOL_SOCKET, 77),
    ("SO_PASSRIGHTS", libc::SOL_SOCKET, 83),
    ("SO_INQ", libc::SOL_SOCKET, SO_INQ),
];

/// The options that programs of TCP choose from: the first ones, so that a seed means the same program when the list
/// grows.
pub const OPTIONS_OF_TCP: usize = 35;

/// asm-generic/socket.h, since Linux 6.17; not in the libc crate.
pub const SO_INQ: i32 = 84;

/// `over=` in programs: what a connection is made of when it is not TCP.
const OVER: Table = &[("path", PATH), ("abstract", ABSTRACT), ("pair", PAIR)];
/// A Unix socket with a name in the file system.
pub const PATH: i64 = 1;
/// A Unix socket with a name beside the file system.
pub const ABSTRACT: i64 = 2;
/// A Unix socket without a name, of a socketpair.
pub const PAIR: i64 = 3;

const SIGNALS: Table = names! { SIGUSR1 SIGUSR2 SIGPIPE SIGIO SIGURG };

const ERRORS: Table = names! {
    EPERM ENOENT ESRCH EINTR EIO EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EINVAL EMFILE ENOTTY EFBIG ESPIPE
    EPIPE EDOM ELOOP EOVERFLOW ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT
    EOPNOTSUPP EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETUNREACH ECONNABORTED ECONNRESET ENOBUFS
    EISCONN ENOTCONN ETIMEDOUT ECONNREFUSED EALREADY EINPROGRESS ENOSYS ENODATA
};

/// The table that an argument's bits or value are named by.
fn table_of(key: &str) -> Table {
    match key {
        "flags" => MESSAGE_FLAGS,
        "events" => EVENTS,
        "fl" => OPEN_FLAGS,
        "signal" => SIGNALS,
        _ => &[],
    }
}

/// The value of an argument as text.
pub fn show(key: &str, value: i64) -> String {
    if key == "option" {
        return OPTIONS
            .get(value as usize)
            .map_or(value.to_string(), |option| option.0.to_owned());
    }
    if key == "over" {
        let found = OVER.iter().find(|(_, number)| *number == value);
        return found.map_or(value.to_string(), |(name, _)| (*name).to_owned());
    }
    if key == "signal" {
        let found = SIGNALS.iter().find(|(_, number)| *number == value);
        return found.map_or(value.to_string(), |(name, _)| (*name).to_owned());
    }
    bits(table_of(key), value).unwrap_or_else(|| value.to_string())
}

/// Bits by their names; `None` if a bit has none.
fn bits(table: Table, value: i64) -> Option<String> {
    let mut text = String::new();
    let mut left = value;
    for (name, bit) in table {
        if left & bit == *bit {
            left &= !bit;
            let separator = if text.is_empty() { "" } else { "|" };
            write!(text, "{separator}{name}").expect("write to a string");
        }
    }
    (left == 0 && !text.is_empty()).then_some(text)
}

/// Reads what [`show`] wrote.
pub fn read(key: &str, text: &str) -> Option<i64> {
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    if key == "option" {
        return OPTIONS
            .iter()
            .position(|option| option.0 == text)
            .map(|index| index as i64);
    }
    if key == "over" {
        let found = OVER.iter().find(|(name, _)| *name == text);
        return found.map(|(_, value)| *value);
    }
    let table = table_of(key);
    text.split('|').try_fold(0, |sum, word| {
        table
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, bit)| sum | bit)
    })
}

/// The events of a poll or an epoll.
pub fn events(value: i64) -> String {
    bits(EVENTS, value).unwrap_or_else(|| format!("{value:#x}"))
}

/// Message flags that came back.
pub fn message_flags(value: i64) -> String {
    bits(MESSAGE_FLAGS, value).unwrap_or_else(|| format!("{value:#x}"))
}

/// An errno by its name.
pub fn error(number: i32) -> String {
    let found = ERRORS.iter().find(|(_, value)| *value == i64::from(number));
    found.map_or(format!("errno{number}"), |(name, _)| (*name).to_owned())
}

/// A signal by its name.
pub fn signal(number: i32) -> &'static str {
    SIGNALS
        .iter()
        .find(|(_, value)| *value == i64::from(number))
        .map_or("?", |(name, _)| name)
}
