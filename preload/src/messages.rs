//! Messages: the calls that may carry control data, and with it fds.
//!
//! Fds travel over Unix sockets, whether those are ours or not, so control data is looked at whatever
//! the socket is.

use crate::errno;
use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};
use sockets::api::{self, Passing, Verdict};

/// Before a send: tells `api` about control data. A bad message is left for the kernel to refuse, and
/// without connections there is none to be passed on.
unsafe fn passing(channel: Option<c_int>, msg: *const msghdr) -> Passing {
    // SAFETY: the program's own message.
    match unsafe { api::has_connections() && has_control(msg) } {
        // SAFETY: the program's own message, of which `has_control` has read the length of its control data.
        true => unsafe { api::passing_fds(channel, msg) },
        false => Passing::default(),
    }
}

unsafe fn has_control(msg: *const msghdr) -> bool {
    // SAFETY: only the place is named.
    let length = unsafe { (&raw const (*msg).msg_controllen).cast() };
    // SAFETY: the program's own message.
    unsafe { api::load_word(length) }.is_some_and(|length| length != 0)
}

/// A receive that leaves the messages where they are, and can be given copies of the fds in them.
struct Peek(bool);

impl Peek {
    fn begin(flags: c_int, has_control: impl Fn() -> bool) -> Peek {
        Peek(flags & libc::MSG_PEEK != 0 && has_control() && api::peek_begins())
    }

    fn end(self) {
        if self.0 {
            errno::keep(|| api::peek_ends(self.0));
        }
    }
}

/// The socket that messages are taken from.
fn channel(fd: c_int, flags: c_int) -> Option<c_int> {
    (flags & libc::MSG_PEEK == 0).then_some(fd)
}

/// After a receive: the kernel leaves a length of 0 when no control data came.
unsafe fn received(channel: Option<c_int>, msg: *const msghdr) {
    // SAFETY: the kernel has just filled this message.
    unsafe {
        if (*msg).msg_controllen != 0 {
            errno::keep(|| api::received_fds(channel, msg));
        }
    }
}

hooks! {
    redhook fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the program's own message.
        let passing = unsafe { passing(Some(fd), msg) };
        let verdict = || {
            // SAFETY: the program's own message.
            let verdict = unsafe { api::sendmsg(fd, msg, flags) };
            if let Verdict::Fail(_) = verdict {
                passing.failed();
            }
            verdict
        };
        answer!(verdict(), {
            let result = real()(fd, msg, flags);
            if result < 0 {
                errno::keep(|| passing.failed());
            }
            result
        })
    }

    redhook fn sendmmsg(fd: c_int, vec: *mut mmsghdr, len: c_uint, flags: c_int) -> c_int {
        for i in 0..len.min(1024) as usize {
            // SAFETY: the program's own vector, whose entries begin with the message; the kernel too looks at
            // no more than 1024 of them.
            unsafe { passing(None, vec.wrapping_add(i).cast()) };
        }
        answer!(api::sendmmsg(fd, vec, len, flags), real()(fd, vec, len, flags))
    }

    redhook fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
        answer!(api::recvmsg(fd, msg, flags), {
            let peek = Peek::begin(flags, || has_control(msg));
            let result = real()(fd, msg, flags);
            if result >= 0 {
                received(channel(fd, flags), msg);
            }
            peek.end();
            result
        })
    }

    redhook fn recvmmsg(fd: c_int, vec: *mut mmsghdr, len: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        answer!(api::recvmmsg(fd, vec, len, flags, timeout), {
            let peek = Peek::begin(flags, || (0..len.min(1024) as usize).any(|i| has_control(vec.wrapping_add(i).cast())));
            let result = real()(fd, vec, len, flags, timeout);
            (0..result).for_each(|i| received(channel(fd, flags), &raw const (*vec.add(i as usize)).msg_hdr));
            peek.end();
            result
        })
    }
}
