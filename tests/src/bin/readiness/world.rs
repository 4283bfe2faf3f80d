//! What the scenarios are made of: connections that have had the chance to leave the kernel, calls
//! that print what they gave, and names for bits and errors.

use std::ffi::c_int;
use std::fmt::Display;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{IntoRawFd, RawFd};
use std::thread::sleep;
use std::time::Duration;

/// Kernel TCP probes a full receiver some tens of milliseconds after the last byte, and then takes more.
const SETTLING: Duration = Duration::from_millis(200);

/// Everything that poll can be asked for.
pub const ALL: i16 = libc::POLLIN
    | libc::POLLPRI
    | libc::POLLOUT
    | libc::POLLRDHUP
    | libc::POLLRDNORM
    | libc::POLLRDBAND
    | libc::POLLWRNORM
    | libc::POLLWRBAND;

const NAMES: &[(i32, &str)] = &[
    (libc::EPOLLIN, "IN"),
    (libc::EPOLLPRI, "PRI"),
    (libc::EPOLLOUT, "OUT"),
    (libc::EPOLLERR, "ERR"),
    (libc::EPOLLHUP, "HUP"),
    (libc::POLLNVAL as i32, "NVAL"),
    (libc::EPOLLRDNORM, "RDNORM"),
    (libc::EPOLLRDBAND, "RDBAND"),
    (libc::EPOLLWRNORM, "WRNORM"),
    (libc::EPOLLWRBAND, "WRBAND"),
    (libc::EPOLLRDHUP, "RDHUP"),
];

/// Bits by name.
pub fn bits(events: i32) -> String {
    let named = NAMES.iter().filter(|(bit, _)| events & bit != 0);
    let text: Vec<&str> = named.map(|(_, name)| *name).collect();
    let known: i32 = NAMES.iter().map(|(bit, _)| bit).sum();
    assert_eq!(events & !known, 0, "a bit without a name in {events:#x}");
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.join("|")
    }
}

/// A call's result: its value, or the name of its error.
pub fn result(value: isize) -> String {
    if value >= 0 {
        return value.to_string();
    }
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    match error {
        libc::EAGAIN => "EAGAIN".to_owned(),
        libc::EBADF => "EBADF".to_owned(),
        libc::ECONNREFUSED => "ECONNREFUSED".to_owned(),
        libc::ECONNRESET => "ECONNRESET".to_owned(),
        libc::EEXIST => "EEXIST".to_owned(),
        libc::EFAULT => "EFAULT".to_owned(),
        libc::EINPROGRESS => "EINPROGRESS".to_owned(),
        libc::EINTR => "EINTR".to_owned(),
        libc::EINVAL => "EINVAL".to_owned(),
        libc::ELOOP => "ELOOP".to_owned(),
        libc::ENOTCONN => "ENOTCONN".to_owned(),
        libc::ENOENT => "ENOENT".to_owned(),
        libc::EPERM => "EPERM".to_owned(),
        libc::EPIPE => "EPIPE".to_owned(),
        other => format!("errno {other}"),
    }
}

/// One line of the transcript.
pub fn say(what: impl Display, found: impl Display) {
    println!("{what}: {found}");
}

/// Lets what is under way arrive: loopback is quick, but not within the call.
pub fn settle() {
    sleep(Duration::from_millis(5));
}

/// Waits until the fd holds as many bytes: on a busy machine the time of `settle` may be too short.
pub fn await_bytes(fd: RawFd, count: c_int) {
    for _ in 0..5000 {
        let mut there: c_int = 0;
        // SAFETY: a pointer to a local of that type.
        assert_eq!(unsafe { libc::ioctl(fd, libc::FIONREAD, &mut there) }, 0);
        if there >= count {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("no {count} bytes in 5 s");
}

/// Waits until this thread of ours has been asleep for a while: it does not wait awake any more.
pub fn await_sleep(tid: libc::pid_t) {
    let mut asleep = 0;
    for _ in 0..5000 {
        sleep(Duration::from_millis(1));
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).expect("stat");
        let is_asleep = stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" S"));
        asleep = if is_asleep { asleep + 1 } else { 0 };
        if asleep == 5 {
            return;
        }
    }
    panic!("thread {tid} does not sleep");
}

/// Two ends of a connection, non-blocking.
pub struct Ends {
    /// The end that connected.
    pub near: RawFd,
    /// The end that was accepted.
    pub far: RawFd,
}

/// A connection that has not carried anything.
pub fn fresh() -> Ends {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let near = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (far, _) = listener.accept().expect("accept");
    for end in [&near, &far] {
        end.set_nodelay(true).expect("TCP_NODELAY");
        end.set_nonblocking(true).expect("O_NONBLOCK");
    }
    Ends {
        near: near.into_raw_fd(),
        far: far.into_raw_fd(),
    }
}

/// A connection that has carried enough to be on rings, if it ever will be.
pub fn warm() -> Ends {
    let ends = fresh();
    ends.warm_up();
    ends
}

impl Ends {
    /// Bytes both ways, one at a time.
    pub fn warm_up(&self) {
        for _ in 0..30 {
            for (from, to) in [(self.near, self.far), (self.far, self.near)] {
                assert_eq!(send(from, 1), "1");
                assert_eq!(poll_one(to, libc::POLLIN, 5000), libc::POLLIN);
                assert_eq!(recv(to, 10), "1");
            }
        }
        settle();
    }
}

pub fn send(fd: RawFd, len: usize) -> String {
    let bytes = vec![b'x'; len];
    // SAFETY: pointer and length describe `bytes`.
    result(unsafe { libc::send(fd, bytes.as_ptr().cast(), len, libc::MSG_NOSIGNAL) })
}

/// One urgent byte.
pub fn send_urgent(fd: RawFd) -> String {
    // SAFETY: one byte.
    result(unsafe { libc::send(fd, b"!".as_ptr().cast(), 1, libc::MSG_OOB) })
}

pub fn recv(fd: RawFd, len: usize) -> String {
    let mut bytes = vec![0u8; len];
    // SAFETY: pointer and length describe `bytes`.
    result(unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), len, 0) })
}

/// Sends until the connection takes no more.
pub fn fill(fd: RawFd) -> u64 {
    let mut sent = 0;
    loop {
        let more = send_all_that_fits(fd);
        if more == 0 {
            return sent;
        }
        sent += more;
        sleep(SETTLING);
    }
}

fn send_all_that_fits(fd: RawFd) -> u64 {
    let bytes = vec![b'x'; 64 << 10];
    let mut sent = 0;
    loop {
        // SAFETY: pointer and length describe `bytes`.
        let n = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) };
        if n < 0 {
            assert_eq!(result(n), "EAGAIN");
            return sent;
        }
        sent += n as u64;
    }
}

/// Receives until `left` bytes have come, or there are none for now.
pub fn drain(fd: RawFd, mut left: u64) -> u64 {
    let mut bytes = vec![0u8; 64 << 10];
    while left > 0 {
        // SAFETY: pointer and length describe `bytes`.
        let n = unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if n <= 0 {
            break;
        }
        left -= n as u64;
    }
    left
}

pub fn close(fd: RawFd) {
    // SAFETY: a plain number.
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

pub fn shutdown(fd: RawFd, how: c_int) -> String {
    // SAFETY: plain numbers.
    result(unsafe { libc::shutdown(fd, how) } as isize)
}

pub fn dup(fd: RawFd) -> RawFd {
    // SAFETY: a plain number.
    let new = unsafe { libc::dup(fd) };
    assert!(new >= 0);
    new
}

/// A socket option of type int.
pub fn set(fd: RawFd, level: c_int, name: c_int, value: c_int) -> String {
    let size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: a pointer to a local of that size.
    let done = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size) };
    result(done as isize)
}

/// Takes the pending error, by number.
pub fn so_error(fd: RawFd) -> c_int {
    let mut error: c_int = -1;
    let mut size = size_of::<c_int>() as libc::socklen_t;
    let value = (&raw mut error).cast();
    // SAFETY: pointers to locals of that size.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, value, &mut size) };
    assert_eq!(done, 0);
    error
}

/// `poll` of one fd.
pub fn poll_one(fd: RawFd, events: i16, timeout_ms: c_int) -> i16 {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one entry.
    let n = unsafe { libc::poll(&mut entry, 1, timeout_ms) };
    assert_eq!(n, i32::from(entry.revents != 0), "poll's count");
    entry.revents
}

/// `select` of one fd without waiting: which of read, write, except it is in; any number.
pub fn select_one(fd: RawFd, timeout_ms: i64) -> String {
    let words = fd as usize / 64 + 1;
    let mut sets = [vec![0u64; words], vec![0u64; words], vec![0u64; words]];
    for set in &mut sets {
        set[fd as usize / 64] |= 1 << (fd % 64);
    }
    let mut time = libc::timeval {
        tv_sec: timeout_ms / 1000,
        tv_usec: timeout_ms % 1000 * 1000,
    };
    let [read, write, except] = sets.each_mut().map(|set| set.as_mut_ptr().cast());
    // SAFETY: the sets have bits for all numbers up to `fd`.
    let n = unsafe { libc::select(fd + 1, read, write, except, &mut time) };
    let names = ["read", "write", "except"];
    let on = sets.iter().zip(names);
    let on = on.filter(|(set, _)| n > 0 && set[fd as usize / 64] >> (fd % 64) & 1 == 1);
    let on: Vec<&str> = on.map(|(_, name)| name).collect();
    format!("{} {}", result(n as isize), on.join("+"))
}
