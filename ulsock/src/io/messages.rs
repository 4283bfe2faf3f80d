//! The calls that move messages: vectors of buffers, with control data, one or many at a time.

use libc::{c_int, mmsghdr, msghdr, timespec};

use super::vectors::list;
use super::{one_by_one, receive_into, transmit_from, Quick, Way};
use crate::api::Verdict;
use crate::conn::buffers::{Buffers, Control};
use crate::conn::wait::Deadline;
use crate::options;
use crate::pointer::is_bad;
use crate::reason::Reason;
use crate::table::{self, Slot};

/// # Safety
/// As libc's `recvmsg`.
pub unsafe fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> Verdict {
    if is_bad(msg, size_of::<msghdr>()) {
        return crate::lifecycle::guard(fd);
    }
    // SAFETY: valid by contract.
    let header = unsafe { &mut *msg };
    // SAFETY: by contract.
    let Some(list) = (unsafe { list(header.msg_iov, header.msg_iovlen) }) else {
        return Verdict::Bypass;
    };
    let mut control = control(header);
    let mut room = Buffers::with_control(list, &mut control);
    let verdict = receive_into(fd, &mut room, Buffers::total(list), flags, Quick::Try);
    if matches!(verdict, Verdict::Done(_)) {
        header.msg_namelen = 0;
        header.msg_controllen = control.written;
        header.msg_flags = control.flags | flags & libc::MSG_CMSG_CLOEXEC;
    }
    verdict
}

/// # Safety
/// As libc's `sendmsg`.
pub unsafe fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> Verdict {
    if is_bad(msg, size_of::<msghdr>()) {
        return crate::lifecycle::guard(fd);
    }
    // SAFETY: valid by contract.
    let header = unsafe { &*msg };
    if header.msg_controllen != 0 {
        // Time stamps and the like belong to the kernel's stream.
        if let Slot::Record(_) = table::get(fd) {
            options::to_kernel(fd, Reason::Call);
        }
    }
    // SAFETY: by contract.
    let Some(list) = (unsafe { list(header.msg_iov, header.msg_iovlen) }) else {
        return Verdict::Bypass;
    };
    let mut control = control(header);
    let mut bytes = Buffers::with_control(list, &mut control);
    transmit_from(fd, &mut bytes, Buffers::total(list), flags, Quick::Try)
}

/// The control data of a message, none yet written.
fn control(header: &msghdr) -> Control {
    Control {
        at: header.msg_control,
        len: header.msg_controllen,
        written: 0,
        flags: 0,
    }
}

/// Runs one call per message until one moves nothing; the first decides the verdict.
///
/// # Safety
/// `vec` has `len` entries.
unsafe fn many(
    vec: *mut mmsghdr,
    len: u32,
    mut each: impl FnMut(&mut mmsghdr, u32) -> Option<Verdict>,
) -> Verdict {
    let mut done = 0;
    while done < len.min(1024) {
        // SAFETY: below `len`.
        let entry = unsafe { &mut *vec.add(done as usize) };
        match each(entry, done) {
            Some(Verdict::Done(n)) => entry.msg_len = n as u32,
            Some(first) if done == 0 => return first,
            _ => break,
        }
        done += 1;
    }
    Verdict::Done(done as isize)
}

/// # Safety
/// As libc's `recvmmsg`.
pub unsafe fn recvmmsg(
    fd: c_int,
    vec: *mut mmsghdr,
    len: u32,
    flags: c_int,
    timeout: *mut timespec,
) -> Verdict {
    if options::managed(fd).is_none() {
        return one_by_one(fd, Way::In);
    }
    if is_bad(vec, size_of::<mmsghdr>())
        || !timeout.is_null() && is_bad(timeout, size_of::<timespec>())
    {
        return Verdict::Bypass;
    }
    // As in the kernel, a pending error comes before any bytes.
    if flags & libc::MSG_ERRQUEUE == 0 {
        if let Some(error) = options::take_error(fd) {
            return Verdict::Fail(error.raw_os_error());
        }
    }
    // SAFETY: null or valid by contract.
    let limit = unsafe { timeout.as_ref() };
    let limit = limit.map(|time| {
        Deadline::after(std::time::Duration::new(
            time.tv_sec.max(0) as u64,
            time.tv_nsec.clamp(0, 999_999_999) as u32,
        ))
    });
    let (wait_for_one, flags) = (
        flags & libc::MSG_WAITFORONE != 0,
        flags & !libc::MSG_WAITFORONE,
    );
    // SAFETY: by contract.
    unsafe {
        many(vec, len, |entry, done| {
            if done > 0 && limit.is_some_and(|limit| limit.passed()) {
                return None;
            }
            let flags = if wait_for_one && done > 0 {
                flags | libc::MSG_DONTWAIT
            } else {
                flags
            };
            Some(recvmsg(fd, &mut entry.msg_hdr, flags))
        })
    }
}

/// # Safety
/// As libc's `sendmmsg`.
pub unsafe fn sendmmsg(fd: c_int, vec: *mut mmsghdr, len: u32, flags: c_int) -> Verdict {
    if options::managed(fd).is_none() {
        return one_by_one(fd, Way::Out);
    }
    if is_bad(vec, size_of::<mmsghdr>()) {
        return Verdict::Bypass;
    }
    // SAFETY: by contract.
    unsafe {
        many(vec, len, |entry, _| {
            Some(sendmsg(fd, &entry.msg_hdr, flags))
        })
    }
}
