//! File flags and requests of our connections: what the program sets, we must know.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use libc::{c_int, c_ulong};
use rustix::net::sockopt::{self, Timeout};

use crate::conn::Conn;
use crate::conn::handover::to_kernel;
use crate::conn::managed;
use crate::state::process_group::record_of;
use crate::state::record::flag;
use crate::state::table::{self, Slot};
use crate::state::verdict::Verdict;
use os::access;
use os::raw;
use rendezvous::reason::Reason;

/// linux/sockios.h
const SIOCATMARK: c_ulong = 0x8905;

/// Before `fcntl`.
///
/// # Safety
/// As libc's `fcntl`.
pub unsafe fn fcntl(fd: c_int, cmd: c_int, arg: c_ulong) -> Verdict {
    match table::get(fd) {
        Slot::Internal => Verdict::Fail(libc::EBADF),
        Slot::Record(_) | Slot::Young(_) => {
            note_fcntl(fd, cmd, arg);
            Verdict::Bypass
        }
        _ => Verdict::Bypass,
    }
}

fn note_fcntl(fd: c_int, cmd: c_int, arg: c_ulong) {
    // F_SETOWN and F_SETSIG by themselves cause no signal but SIGURG, and urgent data comes through the kernel socket.
    if cmd == libc::F_SETFL {
        // A young one has the kernel asked when it matters.
        if let Some((_, _, record)) = record_of(fd) {
            record.put(flag::NONBLOCK, arg & libc::O_NONBLOCK as c_ulong != 0);
        }
        // Signals on arrival are the kernel's to send.
        if arg & libc::O_ASYNC as c_ulong != 0 {
            to_kernel(fd, Reason::Call);
        }
    }
}

/// For a socket that takes the place of another.
pub fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(from)?;
    rustix::fs::fcntl_setfl(to, flags)?;
    for which in [Timeout::Recv, Timeout::Send] {
        sockopt::set_socket_timeout(to, which, sockopt::socket_timeout(from, which)?)?;
    }
    sockopt::set_socket_linger(to, sockopt::socket_linger(from)?)?;
    sockopt::set_socket_keepalive(to, sockopt::socket_keepalive(from)?)?;
    sockopt::set_socket_oobinline(to, sockopt::socket_oobinline(from)?)?;
    // A Unix socket has no such option.
    if let Ok(nodelay) = sockopt::tcp_nodelay(from) {
        sockopt::set_tcp_nodelay(to, nodelay)?;
    }
    copy_owner(from, to);
    crate::calls::io::inq::copy(from, to);
    Ok(())
}

/// Whom the kernel sends SIGURG.
fn copy_owner(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    // include/uapi/asm-generic/fcntl.h, with struct f_owner_ex
    const F_SETOWN_EX: usize = 15;
    const F_GETOWN_EX: usize = 16;
    let mut owner = [0 as c_int; 2];
    let place = owner.as_mut_ptr() as usize;
    for (socket, request) in [(from, F_GETOWN_EX), (to, F_SETOWN_EX)] {
        // SAFETY: both requests take a pointer to two ints.
        let done = unsafe {
            raw::syscall(
                libc::SYS_fcntl,
                [socket.as_raw_fd() as usize, request, place],
            )
        };
        // Nobody is the owner of a new socket.
        if done.is_err() || owner[1] == 0 {
            return;
        }
    }
}

/// The error that is pending on a socket; it is told once.
pub fn take_error(fd: RawFd) -> Option<rustix::io::Errno> {
    // SAFETY: the program is calling with this number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let pending = sockopt::socket_error(socket).ok()?.err();
    let Some(conn) = managed(fd).and_then(Conn::enter) else {
        return pending;
    };
    conn.take_verdict(pending)
}

/// Before `ioctl`.
///
/// # Safety
/// As libc's `ioctl`.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, arg: c_ulong) -> Verdict {
    match table::get(fd) {
        Slot::Internal => return Verdict::Fail(libc::EBADF),
        Slot::Record(_) | Slot::Young(_) => {}
        _ => return Verdict::Bypass,
    }
    let pointer = arg as *mut c_int;
    match request {
        libc::FIONBIO => {
            // SAFETY: any bytes are a number.
            let on = unsafe { access::load(pointer) };
            if let Some(((_, _, record), on)) = record_of(fd).zip(on) {
                record.put(flag::NONBLOCK, on != 0);
            }
            Verdict::Bypass
        }
        libc::FIONREAD => count(fd, pointer, |conn| conn.unread_bytes()),
        libc::TIOCOUTQ => count(fd, pointer, |conn| conn.unsent_bytes()),
        SIOCATMARK => at_mark(fd, pointer),
        // Signals are the kernel's.
        libc::FIOASYNC => {
            // SAFETY: any bytes are a number.
            if unsafe { access::load(pointer) }.is_some_and(|on| on != 0) {
                to_kernel(fd, Reason::Call);
            }
            Verdict::Bypass
        }
        _ => Verdict::Bypass,
    }
}

/// The mark of urgent data is in the kernel's stream, behind all that the ring holds.
fn at_mark(fd: c_int, to: *mut c_int) -> Verdict {
    count(fd, to, |conn| Some(conn.is_at_mark().into()))
}

/// The answer to a request that takes a pointer to an int.
fn tell(to: *mut c_int, answer: c_int) -> Verdict {
    match access::store(to, answer) {
        true => Verdict::Done(0),
        false => Verdict::Fail(libc::EFAULT),
    }
}

fn count(fd: c_int, to: *mut c_int, counter: fn(&Conn<'_>) -> Option<u64>) -> Verdict {
    let counted = managed(fd)
        .and_then(Conn::enter)
        .and_then(|conn| counter(&conn));
    counted.map_or(Verdict::Bypass, |n| {
        tell(to, n.min(c_int::MAX as u64) as c_int)
    })
}
