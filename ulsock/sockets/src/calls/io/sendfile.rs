//! From a file into a connection: the file is read into the ring, by the same send as all others.

use std::os::fd::BorrowedFd;

use libc::{c_int, off64_t};

use super::{Carry, Way, carry, until_done, verdict};
use crate::conn::buffers::{File, MOST_AT_ONCE};
use crate::conn::{Handle, send};
use crate::state::table::{self, Slot};
use crate::state::verdict::Verdict;
use os::access;
use rendezvous::reason::Reason;

/// # Safety
/// As libc's `sendfile`.
pub unsafe fn sendfile(out: c_int, input: c_int, offset: *mut off64_t, count: usize) -> Verdict {
    if table::get(input) == Slot::Internal {
        return Verdict::Fail(libc::EBADF);
    }
    // A negative count the kernel refuses, before it looks at the socket.
    if count == 0 || count > isize::MAX as usize {
        return crate::state::verdict::guard(out);
    }
    until_done(|| match carry(out, Way::Out, 0) {
        Carry::Verdict(verdict) => Some(verdict),
        // SAFETY: the program's own arguments; the offset is read and written by checked copies.
        Carry::Ours(handle) => unsafe { send_from(handle, input, offset, count) },
    })
}

/// `None`: the call begins again.
///
/// # Safety
/// As libc's `sendfile`.
unsafe fn send_from(
    handle: Handle,
    input: c_int,
    offset: *mut off64_t,
    count: usize,
) -> Option<Verdict> {
    // SAFETY: any bytes are a number.
    let Some(begin) = (unsafe { access::load_if_any(offset) }) else {
        return Some(Verdict::Fail(libc::EFAULT));
    };
    // Rust has no place for this one; the kernel refuses all negative numbers alike.
    if input < 0 {
        return Some(Verdict::Fail(libc::EBADF));
    }
    // SAFETY: the program's own number; a bad one makes the reads fail.
    let file = unsafe { BorrowedFd::borrow_raw(input) };
    // Only what can be read again at a position: the ring may take less than was asked for.
    let Ok(place) = rustix::fs::tell(file) else {
        crate::conn::handover::to_kernel(handle.fd, Reason::Call);
        return Some(Verdict::Bypass);
    };
    if begin.is_some_and(|at| at < 0) {
        return Some(Verdict::Fail(libc::EINVAL));
    }
    let first = begin.map_or(place, |at| at as u64);
    // A range that ends beyond the largest file is refused as it is, however short the file.
    if count as u64 > i64::MAX as u64 - first.min(i64::MAX as u64) {
        return Some(Verdict::Fail(libc::EINVAL));
    }
    let mut source = File {
        file,
        offset: begin.map(|at| at as u64),
        error: None,
    };
    let result = send::send(handle, &mut source, count.min(MOST_AT_ONCE), 0);
    if let Some(end) = source.offset
        && !access::store(offset, end as off64_t)
    {
        return Some(Verdict::Fail(libc::EFAULT));
    }
    match (result, source.error) {
        (Some(Ok(0)), Some(error)) => Some(Verdict::Fail(error.raw_os_error())),
        (result, _) => verdict(handle, (Way::Out, 0), result),
    }
}
