//! Socket options: which of them only the kernel's own stream can serve, what we must know of the
//! others, and what TCP_INFO says of bytes that the kernel has not seen.
//!
//! Decided for all options of SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP and IPPROTO_IPV6 in Linux's
//! include/uapi. What is not named here either does not show on an established stream, or is the
//! kernel socket's own affair (keep-alive, marks, priorities, buffer sizes).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{IPPROTO_TCP, SOL_SOCKET, c_int, c_void, socklen_t, timeval};
use rustix::io::Errno;
use rustix::net::{self};

use super::kernel_tls;
use crate::conn::handover::to_kernel;
use crate::conn::managed;
use crate::conn::socket_options::{
    SWITCHES, TCP_INQ, limit_rings, load_inq, set_cork, set_lowat, set_timeout,
};
use crate::conn::{self, Conn};
use crate::runtime::deadline::AT_ONCE;
use crate::state::give_record::give_record;
use crate::state::process_group::record_of;
use crate::state::record::flag;
use crate::state::table::{self, Slot};
use crate::state::verdict::Verdict;
use os;
use os::access;
use os::fds::Transient;
use os::tcp;
use rendezvous::reason::Reason;

// include/uapi/asm-generic/socket.h and linux/tcp.h; those that the libc crate lacks.
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_NEW: c_int = 67;
const TCP_ZEROCOPY_RECEIVE: c_int = 35;

/// With any value: kernel TLS and the like, filters on what arrives.
const ALWAYS: [(c_int, c_int); 3] = [
    (IPPROTO_TCP, libc::TCP_ULP),
    (SOL_SOCKET, libc::SO_ATTACH_FILTER),
    (SOL_SOCKET, libc::SO_ATTACH_BPF),
];

/// Limits of time. The kernel tells a negative one and none alike.
const LIMITS: [(c_int, c_int); 4] = [
    (SOL_SOCKET, libc::SO_RCVTIMEO),
    (SOL_SOCKET, SO_RCVTIMEO_NEW),
    (SOL_SOCKET, libc::SO_SNDTIMEO),
    (SOL_SOCKET, SO_SNDTIMEO_NEW),
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
        // The kernel tells most of them when it becomes managed, but not these.
        Slot::Young(_) if LIMITS.contains(&(level, name)) && is_below_zero(value.cast(), len) => {
            give_record(fd);
        }
        Slot::Young(_) => {}
        _ => return Verdict::Bypass,
    }
    if kernel_tls::is_denied(fd, (level, name), value, len) {
        return Verdict::Fail(libc::ENOENT);
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
    // SAFETY: the value is null or has so many bytes, as setsockopt wants it.
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
    let tried = unsafe { os::raw::syscall(libc::SYS_setsockopt, args) };
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
        (IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => {
            if let Some(handle) = managed(fd) {
                conn::stir_if_writable(handle);
            }
        }
        (IPPROTO_TCP, libc::TCP_CORK) => set_cork(record, socket),
        (IPPROTO_TCP, TCP_INQ) => load_inq(record, socket),
        _ => {}
    }
}

fn is_below_zero(value: *const timeval, len: socklen_t) -> bool {
    // SAFETY: any bytes are a time.
    let time = || unsafe { access::load(value) };
    len as usize >= size_of::<timeval>() && time().is_some_and(|time| time.tv_sec < 0)
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

/// Before `getsockopt`: one option receives data.
pub fn getsockopt(fd: c_int, level: c_int, name: c_int) -> Verdict {
    if (level, name) == (IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE) {
        to_kernel(fd, Reason::Call);
    }
    crate::state::verdict::guard(fd)
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
