//! Socket options: which of them only the kernel's own stream can serve, what we must know of the
//! others, and what TCP_INFO says of bytes that the kernel has not seen.
//!
//! Decided for all options of SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP and IPPROTO_IPV6 in Linux's
//! include/uapi. What is not named here either does not show on an established stream, or is the
//! kernel socket's own affair (keep-alive, marks, priorities, buffer sizes).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t, timeval, IPPROTO_TCP, SOL_SOCKET};
use netstack::ring::mark::LEVEL_SIZE;
use rustix::io::Errno;
use rustix::net::{self, sockopt};

use crate::access;
use crate::api::Verdict;
use crate::conn::room::BEYOND;
use crate::conn::{self, Conn};
use crate::io::inq;
use crate::options::{managed, record_of, to_kernel};
use crate::reason::Reason;
use crate::record::{flag, Record};
use crate::sys::fds::Transient;
use crate::sys::{self, tcp};
use crate::table::{self, Slot};

// include/uapi/asm-generic/socket.h and linux/tcp.h; those that the libc crate lacks.
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_NEW: c_int = 67;
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;
const SO_TXTIME: c_int = 61;
const TCP_ZEROCOPY_RECEIVE: c_int = 35;
pub const TCP_INQ: c_int = 36;
const TCP_TX_DELAY: c_int = 37;

/// With a value other than 0: time stamps that come as control data, delays on purpose.
/// (SO_ZEROCOPY only permits MSG_ZEROCOPY, and a send with that flag goes to the kernel by itself.)
const SWITCHES: [(c_int, c_int); 9] = [
    (SOL_SOCKET, libc::SO_TIMESTAMP),
    (SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (SOL_SOCKET, libc::SO_TIMESTAMPING),
    (SOL_SOCKET, SO_TIMESTAMP_NEW),
    (SOL_SOCKET, SO_TIMESTAMPNS_NEW),
    (SOL_SOCKET, SO_TIMESTAMPING_NEW),
    (SOL_SOCKET, SO_TXTIME),
    (IPPROTO_TCP, TCP_TX_DELAY),
    (IPPROTO_TCP, libc::TCP_REPAIR),
];

/// With any value: kernel TLS and the like, filters on what arrives.
const ALWAYS: [(c_int, c_int); 3] = [
    (IPPROTO_TCP, libc::TCP_ULP),
    (SOL_SOCKET, libc::SO_ATTACH_FILTER),
    (SOL_SOCKET, libc::SO_ATTACH_BPF),
];

/// Before `setsockopt`.
///
/// # Safety
/// As libc's `setsockopt`.
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Verdict {
    match table::get(fd) {
        Slot::Internal => return Verdict::Fail(libc::EBADF),
        Slot::Record(_) => {}
        _ => return Verdict::Bypass,
    }
    // SAFETY: any bytes are a number.
    let number = (len as usize >= size_of::<c_int>())
        .then(|| unsafe { access::load(value.cast::<c_int>()) })
        .flatten();
    let option = (level, name);
    let limit = record_of(fd).and_then(|(_, _, record)| match option {
        (SOL_SOCKET, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) => Some(&record.recv_timeout_us),
        (SOL_SOCKET, libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW) => Some(&record.send_timeout_us),
        _ => None,
    });
    if let Some(place) = limit {
        note_timeout(place, value.cast(), len);
    }
    if let (true, Some((_, _, record)), Some(number)) = (
        option == (IPPROTO_TCP, libc::TCP_NODELAY),
        record_of(fd),
        number,
    ) {
        record.put(flag::NODELAY, number != 0);
    }
    let on = SWITCHES.contains(&option) && number != Some(0);
    let peeks = option == (SOL_SOCKET, libc::SO_PEEK_OFF) && number.is_some_and(|at| at >= 0);
    // SAFETY: by contract.
    let always = ALWAYS.contains(&option) && unsafe { may_succeed(option, value, len) };
    if on || peeks || always {
        to_kernel(fd, Reason::Call);
    }
    Verdict::Bypass
}

/// OpenSSL asks for kernel TLS whether or not the kernel has it. If it has not, that shows on any socket.
///
/// # Safety
/// `value` is null or has `len` bytes.
unsafe fn may_succeed(option: (c_int, c_int), value: *const c_void, len: socklen_t) -> bool {
    if option != (IPPROTO_TCP, libc::TCP_ULP) {
        return true;
    }
    let (family, kind) = (net::AddressFamily::INET, net::SocketType::STREAM);
    let Ok(other) = net::socket_with(family, kind, net::SocketFlags::CLOEXEC, None) else {
        return true;
    };
    let other = Transient::new(other);
    let fd = other.as_fd().as_raw_fd() as usize;
    let args = [
        fd,
        option.0 as usize,
        option.1 as usize,
        value as usize,
        len as usize,
    ];
    // SAFETY: the kernel reads `len` bytes there, or fails.
    let tried = unsafe { sys::raw::syscall(libc::SYS_setsockopt, args) };
    tried != Err(Errno::NOENT)
}

/// After a successful `setsockopt`: what the kernel has made of it is what we go by.
pub fn option_set(fd: RawFd, level: c_int, name: c_int) {
    let Some((_, _, record)) = record_of(fd) else {
        return;
    };
    // SAFETY: the program has just used the number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    match (level, name) {
        (SOL_SOCKET, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) => {
            set_timeout(&record.recv_timeout_us, tcp::recv_timeout(socket))
        }
        (SOL_SOCKET, libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW) => {
            set_timeout(&record.send_timeout_us, tcp::send_timeout(socket))
        }
        (SOL_SOCKET, libc::SO_RCVLOWAT) => {
            set_lowat(record, socket);
            // What was too little may be enough now.
            if let Some(handle) = managed(fd) {
                conn::wake_readers(handle);
            }
        }
        (SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            limit_rings(record, socket);
            if let Some(handle) = managed(fd) {
                conn::stir(handle);
            }
        }
        (IPPROTO_TCP, libc::TCP_CORK) => set_cork(record, socket),
        (IPPROTO_TCP, TCP_INQ) => inq::load(record, socket),
        _ => {}
    }
}

/// What the kernel knows about a socket that becomes managed; an accepted one has inherited some.
pub fn load(record: &Record, socket: BorrowedFd<'_>) {
    set_timeout(&record.recv_timeout_us, tcp::recv_timeout(socket));
    set_timeout(&record.send_timeout_us, tcp::send_timeout(socket));
    set_lowat(record, socket);
    set_cork(record, socket);
    record.put(flag::NODELAY, sockopt::tcp_nodelay(socket).unwrap_or(true));
    limit_rings(record, socket);
    inq::load(record, socket);
}

/// If the program has said how much a send may take before it waits, a ring is no larger than that
/// (but for the smallest), and what it cannot hold goes to the kernel, whose buffers have that limit. So it does if no
/// ring is as large as that.
fn limit_rings(record: &Record, socket: BorrowedFd<'_>) {
    if let Some(bytes) = tcp::send_buffer(socket) {
        let fits = LEVEL_SIZE.iter().rposition(|size| *size <= bytes.into());
        let level = match u64::from(bytes) > LEVEL_SIZE[LEVEL_SIZE.len() - 1] {
            true => BEYOND,
            false => fits.unwrap_or(0) as u32,
        };
        record.largest.store(level, Ordering::Relaxed);
    }
}

/// A time limit that was set to a negative time: the kernel does not wait then.
pub const AT_ONCE: u64 = 1;

/// The kernel tells a negative time and none alike; the first has been noted when it was set.
fn set_timeout(place: &AtomicU64, time: Option<Duration>) {
    match time {
        Some(time) => place.store(time.as_micros().max(1) as u64, Ordering::Relaxed),
        None if place.load(Ordering::Relaxed) == AT_ONCE => {}
        None => place.store(0, Ordering::Relaxed),
    }
}

/// Before a time limit is set.
fn note_timeout(place: &AtomicU64, value: *const timeval, len: socklen_t) {
    if (len as usize) < size_of::<timeval>() {
        return;
    }
    // SAFETY: any bytes are a time.
    let Some(time) = (unsafe { access::load(value) }) else {
        return;
    };
    if (0..1_000_000).contains(&time.tv_usec) {
        let micros = if time.tv_sec < 0 { AT_ONCE } else { 0 };
        place.store(micros, Ordering::Relaxed);
    }
}

fn set_lowat(record: &Record, socket: BorrowedFd<'_>) {
    let lowat = tcp::recv_lowat(socket).unwrap_or(1);
    record.recv_lowat.store(lowat, Ordering::Relaxed);
}

fn set_cork(record: &Record, socket: BorrowedFd<'_>) {
    record.put(flag::HELD_BACK, tcp::is_corked(socket).unwrap_or(false));
}

/// Has one of those options been set before the connection was ours to watch, or inherited from its
/// listener? Of filters only the classic ones show.
pub fn needs_kernel(socket: BorrowedFd<'_>) -> bool {
    let mut room = [0; 16];
    let length = |(level, name), room: &mut [u8]| sys::getsockopt(socket, level, name, room);
    let on = SWITCHES.iter().any(|option| {
        room = [0; 16];
        length(*option, &mut room).is_ok() && room != [0; 16]
    });
    // A protocol on top has a name; a filter a number of instructions, told when there is no room.
    on || length((IPPROTO_TCP, libc::TCP_ULP), &mut room).is_ok_and(|len| len > 0)
        || tcp::has_filter(socket)
}

/// Before `getsockopt`: one option receives data.
pub fn getsockopt(fd: c_int, level: c_int, name: c_int) -> Verdict {
    if (level, name) == (IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE) {
        to_kernel(fd, Reason::Call);
    }
    crate::lifecycle::guard(fd)
}

/// After a successful `getsockopt`: the kernel counts its own bytes only, and has told us an error perhaps that the
/// program has not heard.
///
/// # Safety
/// As libc's `getsockopt`; the kernel has filled `value` and `len`.
pub unsafe fn option_read(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *const socklen_t,
) {
    let is_error = (level, name) == (SOL_SOCKET, libc::SO_ERROR);
    if !is_error && (level, name) != (IPPROTO_TCP, libc::TCP_INFO) {
        return;
    }
    let Some(conn) = managed(fd).and_then(Conn::enter) else {
        return;
    };
    if is_error {
        // SAFETY: the kernel has just written that many bytes there.
        let answer = unsafe { std::slice::from_raw_parts_mut(value.cast::<u8>(), *len as usize) };
        return tell_error(&conn, answer);
    }
    let Some(totals) = conn.totals() else { return };
    // SAFETY: the kernel has just written that many bytes there.
    let info = unsafe { std::slice::from_raw_parts_mut(value.cast::<u8>(), *len as usize) };
    tcp::Totals::write(&totals, info);
}

/// SO_ERROR, as the kernel has answered it.
fn tell_error(conn: &Conn<'_>, answer: &mut [u8]) {
    let mut pending = [0; 4];
    for (byte, answered) in pending.iter_mut().zip(answer.iter()) {
        *byte = *answered;
    }
    let pending = c_int::from_ne_bytes(pending);
    let pending = (pending != 0).then(|| Errno::from_raw_os_error(pending));
    if let Some(error) = conn.take_verdict(pending) {
        for (byte, told) in answer.iter_mut().zip(error.raw_os_error().to_ne_bytes()) {
            *byte = told;
        }
    }
}
