//! Messages: the calls that may carry control data, and with it fds.
//!
//! Fds travel over Unix sockets, which are never ours, so control data is looked at whatever the
//! socket is.

use crate::errno;
use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};
use ulsock::api::{self, Verdict};

/// Before a send: tells `api` about control data. A bad message is left for the kernel to refuse, and
/// without connections there is none to be passed on.
unsafe fn passing(msg: *const msghdr) {
    // SAFETY: only the place is named.
    let length = unsafe { (&raw const (*msg).msg_controllen).cast() };
    // SAFETY: the program's own message.
    unsafe {
        if api::has_connections() && api::load_word(length).is_some_and(|length| length != 0) {
            api::passing_fds(msg);
        }
    }
}

/// After a receive: the kernel leaves a length of 0 when no control data came.
unsafe fn received(msg: *const msghdr) {
    // SAFETY: the kernel has just filled this message.
    unsafe {
        if (*msg).msg_controllen != 0 {
            errno::keep(|| api::received_fds(msg));
        }
    }
}

hooks! {
    redhook fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the program's own message.
        unsafe { passing(msg) };
        answer!(api::sendmsg(fd, msg, flags), real()(fd, msg, flags))
    }

    redhook fn sendmmsg(fd: c_int, vec: *mut mmsghdr, len: c_uint, flags: c_int) -> c_int {
        // SAFETY: the program's own vector, whose entries begin with the message; the kernel too looks at
        // no more than 1024 of them.
        (0..len.min(1024) as usize).for_each(|i| unsafe { passing(vec.wrapping_add(i).cast()) });
        answer!(api::sendmmsg(fd, vec, len, flags), real()(fd, vec, len, flags))
    }

    redhook fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
        answer!(api::recvmsg(fd, msg, flags), {
            let result = real()(fd, msg, flags);
            if result >= 0 {
                received(msg);
            }
            result
        })
    }

    redhook fn recvmmsg(fd: c_int, vec: *mut mmsghdr, len: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        answer!(api::recvmmsg(fd, vec, len, flags, timeout), {
            let result = real()(fd, vec, len, flags, timeout);
            (0..result).for_each(|i| received(&raw const (*vec.add(i as usize)).msg_hdr));
            result
        })
    }
}
