//! Calls with a vector of buffers.

use libc::{c_int, iovec};

use super::{Quick, awake, receive, transmit};
use crate::conn::buffers::Buffers;
use crate::state::table;
use crate::state::verdict::Verdict;
use os::access;

/// # Safety
/// `iov` has `count` entries.
pub(super) unsafe fn list<'a>(iov: *const iovec, count: usize) -> Option<&'a [iovec]> {
    // 1024 is the kernel's own limit.
    if count > 1024 {
        return None;
    }
    if count == 0 {
        return Some(&[]);
    }
    if !access::is_readable(iov, count * size_of::<iovec>()) {
        return None;
    }
    // SAFETY: they can be read.
    let list = unsafe { std::slice::from_raw_parts(iov, count) };
    // Lengths below zero the kernel refuses, before it looks at the socket.
    let sound = list
        .iter()
        .all(|piece| piece.iov_len <= isize::MAX as usize);
    sound.then_some(list)
}

/// # Safety
/// As libc's `readv`, with `MSG_DONTWAIT` or without.
pub unsafe fn readv(fd: c_int, iov: *const iovec, count: usize, flags: c_int) -> Verdict {
    if table::attended(fd).is_none() && !awake::concerns(fd) {
        return Verdict::Bypass;
    }
    // SAFETY: the program's vector, for the length of the call.
    match unsafe { list(iov, count) } {
        Some(list) if Buffers::total(list) > 0 => receive(fd, list, flags, Quick::Try),
        _ => crate::state::verdict::guard(fd),
    }
}

/// # Safety
/// As libc's `writev`, with `MSG_DONTWAIT` or without.
pub unsafe fn writev(fd: c_int, iov: *const iovec, count: usize, flags: c_int) -> Verdict {
    if table::attended(fd).is_none() {
        awake::note_send(fd);
        return Verdict::Bypass;
    }
    // SAFETY: the program's vector, for the length of the call.
    unsafe { list(iov, count) }.map_or(Verdict::Bypass, |list| {
        transmit(fd, list, flags, Quick::Try)
    })
}
