//! epoll: the program's epoll fd stays the kernel's; `api` decides what its waits return.

use crate::errno;
use crate::readiness::from_millis;
use libc::{c_int, epoll_event, sigset_t, timespec};
use sockets::api::{self, Begun, KernelWait, Verdict};
use std::ptr::null;

fn opened(fd: c_int) -> c_int {
    if fd >= 0 {
        errno::keep(|| api::epoll_opened(fd));
    }
    fd
}

/// A wait by the real function, or by `api`, or first by the one and then by the other.
macro_rules! wait {
    ($begun:expr, $real:expr, $end:expr) => {
        // SAFETY: the program's own arguments, handed on as it gave them.
        match unsafe { $begun } {
            Begun::Verdict(verdict) => answer!(verdict, $real),
            Begun::Plain(doze) => {
                // SAFETY: the program's own arguments; `doze` is that of this wait, and ends once.
                let (n, more) = unsafe {
                    let n = $real;
                    (n, $end(doze, n))
                };
                more.map_or(n, |verdict| answer!(verdict, $real))
            }
        }
    };
}

hooks! {
    redhook fn epoll_create(size: c_int) -> c_int {
        // SAFETY: a plain number.
        opened(unsafe { real()(size) })
    }

    redhook fn epoll_create1(flags: c_int) -> c_int {
        // SAFETY: a plain number.
        opened(unsafe { real()(flags) })
    }

    redhook fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        answer!(api::epoll_ctl(epfd, op, fd, event), real()(epfd, op, fd, event))
    }

    redhook fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, ms: c_int) -> c_int {
        let timeout = from_millis(ms);
        wait!(
            api::epoll_wait(epfd, events, max, timeout.as_ref(), null()),
            real()(epfd, events, max, ms),
            |doze: KernelWait, n| doze.end(n, epfd, events, max, null())
        )
    }

    redhook fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, ms: c_int, mask: *const sigset_t) -> c_int {
        let timeout = from_millis(ms);
        wait!(
            api::epoll_wait(epfd, events, max, timeout.as_ref(), mask),
            real()(epfd, events, max, ms, mask),
            |doze: KernelWait, n| doze.end(n, epfd, events, max, mask)
        )
    }

    by_hand fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        wait!(
            match api::time_of_wait(epfd, timeout) {
                Some(timeout) => api::epoll_wait(epfd, events, max, timeout.as_ref(), mask),
                None => Begun::Verdict(Verdict::Bypass),
            },
            real()(epfd, events, max, timeout, mask),
            |doze: KernelWait, n| doze.end(n, epfd, events, max, mask)
        )
    }
}
