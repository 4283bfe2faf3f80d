//! What the kernel knows of a socket's options, for a connection that becomes managed.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libc::{IPPROTO_TCP, SOL_SOCKET, c_int};
use netstack::ring::mark::LEVEL_SIZE;
use rustix::fs::OFlags;
use rustix::net::sockopt;

use super::grow::BEYOND;
use crate::runtime::deadline::AT_ONCE;
use crate::state::record::{Record, flag};
use os;
use os::tcp;

// include/uapi/asm-generic/socket.h and linux/tcp.h; those that the libc crate lacks.
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;
const SO_TXTIME: c_int = 61;
pub const TCP_INQ: c_int = 36;
const TCP_TX_DELAY: c_int = 37;
const SO_PASSPIDFD: c_int = 76;
/// What Unix sockets have in place of TCP_INQ, since Linux 6.18.
const SO_INQ: c_int = 84;

/// With a value other than 0: time stamps, counts and credentials that come as control data, delays on purpose.
/// (SO_ZEROCOPY only permits MSG_ZEROCOPY, and a send with that flag goes to the kernel by itself.)
pub const SWITCHES: [(c_int, c_int); 13] = [
    (SOL_SOCKET, libc::SO_TIMESTAMP),
    (SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (SOL_SOCKET, libc::SO_TIMESTAMPING),
    (SOL_SOCKET, SO_TIMESTAMP_NEW),
    (SOL_SOCKET, SO_TIMESTAMPNS_NEW),
    (SOL_SOCKET, SO_TIMESTAMPING_NEW),
    (SOL_SOCKET, SO_TXTIME),
    (SOL_SOCKET, libc::SO_PASSCRED),
    (SOL_SOCKET, libc::SO_PASSSEC),
    (SOL_SOCKET, SO_PASSPIDFD),
    (SOL_SOCKET, SO_INQ),
    (IPPROTO_TCP, TCP_TX_DELAY),
    (IPPROTO_TCP, libc::TCP_REPAIR),
];

/// What the kernel knows about a socket that becomes managed; an accepted one has inherited some.
pub fn load(record: &Record, socket: BorrowedFd<'_>) {
    load_waiting(record, socket);
    load_options(record, socket);
}

/// Whether a receive waits, and for how much.
pub fn load_waiting(record: &Record, socket: BorrowedFd<'_>) {
    let flags = rustix::fs::fcntl_getfl(socket).unwrap_or(OFlags::empty());
    record.put(flag::NONBLOCK, flags.contains(OFlags::NONBLOCK));
    set_lowat(record, socket);
}

/// Does the kernel send signals on arrival? It may have been asked to before it was a connection.
pub fn is_asynchronous(socket: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_getfl(socket).is_ok_and(|flags| flags.bits() & libc::O_ASYNC as u32 != 0)
}

fn load_options(record: &Record, socket: BorrowedFd<'_>) {
    set_timeout(&record.recv_timeout_us, tcp::recv_timeout(socket));
    set_timeout(&record.send_timeout_us, tcp::send_timeout(socket));
    set_cork(record, socket);
    record.put(flag::NODELAY, sockopt::tcp_nodelay(socket).unwrap_or(true));
    limit_rings(record, socket);
    load_inq(record, socket);
}

/// If the program has said how much a send may take before it waits, a ring is no larger than that
/// (but for the smallest), and what it cannot hold goes to the kernel, whose buffers have that limit. So it does if no
/// ring is as large as that.
pub fn limit_rings(record: &Record, socket: BorrowedFd<'_>) {
    if record.is_unix() {
        return limit_unix_rings(record, socket);
    }
    if let Some(bytes) = tcp::send_buffer(socket) {
        let fits = LEVEL_SIZE.iter().rposition(|size| *size <= bytes.into());
        let level = match u64::from(bytes) > LEVEL_SIZE[LEVEL_SIZE.len() - 1] {
            true => BEYOND,
            false => fits.unwrap_or(0) as u32,
        };
        record.largest.store(level, Ordering::Relaxed);
    }
}

/// The buffer of a Unix socket does not grow by itself as TCP's does. A ring is about as large as it.
fn limit_unix_rings(record: &Record, socket: BorrowedFd<'_>) {
    let bytes = sockopt::socket_send_buffer_size(socket).unwrap_or(0) as u64;
    let fits = |size: &u64| *size <= bytes + bytes / 4;
    let level = LEVEL_SIZE.iter().rposition(fits).unwrap_or(0);
    record.largest.store(level as u32, Ordering::Relaxed);
}

/// The kernel tells a negative time and none alike; the first has been noted when it was set.
pub fn set_timeout(place: &AtomicU64, time: Option<Duration>) {
    match time {
        Some(time) => place.store(time.as_micros().max(1) as u64, Ordering::Relaxed),
        None if place.load(Ordering::Relaxed) == AT_ONCE => {}
        None => place.store(0, Ordering::Relaxed),
    }
}

pub fn set_lowat(record: &Record, socket: BorrowedFd<'_>) {
    let lowat = tcp::recv_lowat(socket).unwrap_or(1);
    record.recv_lowat.store(lowat, Ordering::Relaxed);
}

pub fn set_cork(record: &Record, socket: BorrowedFd<'_>) {
    record.put(flag::HELD_BACK, tcp::is_corked(socket).unwrap_or(false));
}

/// Has one of those options been set before the connection was ours to watch, or inherited from its
/// listener? Of filters only the classic ones show.
pub fn needs_kernel(socket: BorrowedFd<'_>) -> bool {
    let mut room = [0; 16];
    let length = |(level, name), room: &mut [u8]| os::getsockopt(socket, level, name, room);
    let on = SWITCHES.iter().any(|option| {
        room = [0; 16];
        length(*option, &mut room).is_ok() && room != [0; 16]
    });
    // A protocol on top has a name; a filter a number of instructions, told when there is no room.
    on || peeks_on(socket)
        || length((IPPROTO_TCP, libc::TCP_ULP), &mut room).is_ok_and(|len| len > 0)
        || tcp::has_filter(socket)
}

/// Does each peek begin behind the one before? The kernel keeps the place (SO_PEEK_OFF); without one it is -1.
fn peeks_on(socket: BorrowedFd<'_>) -> bool {
    let mut place = [0; 4];
    let asked = os::getsockopt(socket, SOL_SOCKET, libc::SO_PEEK_OFF, &mut place);
    asked == Ok(place.len()) && c_int::from_ne_bytes(place) >= 0
}

os::process_wide! {
    /// Some connection of this process has had the option: others pay one load for it.
    static INQ_USED: AtomicBool = AtomicBool::new(false);
}

/// What the kernel knows of the option.
pub fn load_inq(record: &Record, socket: BorrowedFd<'_>) {
    let mut value = [0; 4];
    let asked = os::getsockopt(socket, IPPROTO_TCP, TCP_INQ, &mut value);
    let on = asked.is_ok() && value != [0; 4];
    record.put(flag::INQ, on);
    if on {
        INQ_USED.store(true, Ordering::Relaxed);
    }
}

/// Has any connection of this process had it?
#[inline]
pub fn inq_is_used() -> bool {
    INQ_USED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::UnixStream;

    /// Set before it was one of ours to watch.
    #[test]
    fn a_place_to_peek_at_needs_the_kernel() {
        let (socket, _peer) = UnixStream::pair().expect("a pair");
        assert!(!needs_kernel(socket.as_fd()));
        for (place, needs) in [(0_i32, true), (7, true), (-1, false)] {
            let value = (&raw const place).cast();
            let (fd, len) = (socket.as_raw_fd(), size_of_val(&place) as u32);
            // SAFETY: the number is there for the call.
            let set = unsafe { libc::setsockopt(fd, SOL_SOCKET, libc::SO_PEEK_OFF, value, len) };
            assert_eq!(set, 0);
            assert_eq!(needs_kernel(socket.as_fd()), needs, "{place}");
        }
    }
}
