//! The calls that move one message: vectors of buffers, with control data. Those that move many are in
//! [`super::many`].

use libc::{c_int, msghdr};

use super::vectors::list;
use super::{receive_into, transmit_from, Quick};
use crate::api::Verdict;
use crate::conn::buffers::{Buffers, Control};
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
    if has_bad_name(header) {
        return crate::lifecycle::guard(fd);
    }
    // SAFETY: by contract.
    let Some(list) = (unsafe { list(header.msg_iov, header.msg_iovlen) }) else {
        return Verdict::Bypass;
    };
    let mut control = control(header);
    let mut room = Buffers::with_control(list, &mut control);
    let verdict = receive_into(fd, &mut room, Buffers::total(list), flags, Quick::Try);
    if matches!(verdict, Verdict::Done(_)) {
        if !header.msg_name.is_null() {
            header.msg_namelen = 0;
        }
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
    if has_bad_name(header) {
        return crate::lifecycle::guard(fd);
    }
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

/// The kernel refuses a name of negative length, before it looks at the socket.
fn has_bad_name(header: &msghdr) -> bool {
    !header.msg_name.is_null() && header.msg_namelen > i32::MAX as u32
}
