//! Operations of entries, made without waiting, as the kernel makes them first.

use libc::{c_int, c_void, pollfd, timespec};
use os::raw;
use os::uring::Sqe;

use super::entry::{self, Plain};
use crate::calls::io::{self, First};
use crate::ready::poll::{self, Begun, PollLimit};
use crate::state::urings::KeptOperation;
use crate::state::verdict::Verdict;

/// What became of one.
pub enum Outcome {
    Done(i32),
    /// It waits for its connection to become ready.
    Nothing,
    /// The connection is the kernel's, and so is the operation.
    Kernel,
}

/// One that is kept, again.
pub fn again(kept: &KeptOperation) -> Outcome {
    match kept.handle.is_open() {
        true => attempt(&kept.entry),
        // The program has closed its number: nobody but the kernel can wait for it now.
        false => Outcome::Kernel,
    }
}

pub fn attempt(entry: &Sqe) -> Outcome {
    match entry::plain(entry) {
        Some(Plain::Receive) => receive(entry),
        Some(Plain::Transmit) => transmit(entry),
        Some(Plain::Poll(events)) => look(entry.fd, events),
        None => Outcome::Kernel,
    }
}

/// Only what costs next to nothing, and neither ends nor errors.
pub fn quickly(entry: &Sqe) -> Option<i32> {
    let first = match entry::plain(entry)? {
        // SAFETY: the buffer that the program has given to the operation.
        Plain::Receive => unsafe {
            let (place, len) = (entry.addr as *mut c_void, entry.len as usize);
            io::recv_first(entry.fd, place, len, libc::MSG_DONTWAIT)
        },
        // SAFETY: as above.
        Plain::Transmit => unsafe {
            let (place, len) = (entry.addr as *const c_void, entry.len as usize);
            io::send_first(entry.fd, place, len, send_flags(entry))
        },
        Plain::Poll(_) => return None,
    };
    match first {
        First::Done(result) => Some(result as i32),
        First::Young(call) => {
            call.done(0);
            None
        }
        First::Failed(_) | First::Foreign | First::Other => None,
    }
}

fn send_flags(entry: &Sqe) -> c_int {
    entry::send_flags(entry) | libc::MSG_DONTWAIT
}

fn receive(entry: &Sqe) -> Outcome {
    if let Some(result) = quickly(entry) {
        return Outcome::Done(result);
    }
    let (place, len) = (entry.addr as *mut c_void, entry.len as usize);
    // SAFETY: the buffer that the program has given to the operation.
    let verdict = unsafe { io::recv(entry.fd, place, len, libc::MSG_DONTWAIT) };
    outcome(verdict, libc::SYS_recvfrom, entry, libc::MSG_DONTWAIT)
}

fn transmit(entry: &Sqe) -> Outcome {
    if let Some(result) = quickly(entry) {
        return Outcome::Done(result);
    }
    let (place, len) = (entry.addr as *const c_void, entry.len as usize);
    let flags = send_flags(entry);
    // SAFETY: the buffer that the program has given to the operation.
    let verdict = unsafe { io::send(entry.fd, place, len, flags) };
    outcome(verdict, libc::SYS_sendto, entry, flags)
}

fn look(fd: c_int, events: i16) -> Outcome {
    let at_once = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut fds = [pollfd {
        fd,
        events,
        revents: 0,
    }];
    let limit = PollLimit::new(Some(&at_once));
    let polled = limit
        .and_then(|limit| poll::poll_since(&mut fds, limit, std::ptr::null(), Begun::default()));
    match (polled, fds[0].revents) {
        (Some(Ok(_)), 0) => Outcome::Nothing,
        (Some(Ok(_)), revents) => Outcome::Done(revents.into()),
        _ => Outcome::Kernel,
    }
}

/// A connection that may leave kernel TCP yet is served by calls, so that it can.
fn outcome(verdict: Verdict, call: libc::c_long, entry: &Sqe, flags: c_int) -> Outcome {
    let result = match verdict {
        Verdict::Done(result) => result as i32,
        Verdict::Fail(error) => -error,
        Verdict::Bypass | Verdict::Counted(_) => return Outcome::Kernel,
        // One that an io_uring names is young no more.
        Verdict::Young(call) => {
            call.done(0);
            return Outcome::Kernel;
        }
        Verdict::Kernel(inflight) => {
            let [fd, len, flags] = [entry.fd as usize, entry.len as usize, flags as usize];
            // SAFETY: as the program has asked for, without waiting.
            let result = unsafe { raw::syscall(call, [fd, entry.addr as usize, len, flags, 0, 0]) };
            inflight.done(result.map_or(-1, |n| n as isize));
            match result {
                Ok(n) => n as i32,
                Err(error) => -error.raw_os_error(),
            }
        }
    };
    match result {
        error if error == -libc::EAGAIN => Outcome::Nothing,
        result => Outcome::Done(result),
    }
}
