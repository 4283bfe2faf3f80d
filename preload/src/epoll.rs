//! epoll: the program's epoll fd stays the kernel's; `api` decides what its waits return.

use crate::errno;
use crate::readiness::{from_millis, pointer, valid};
use libc::{c_int, epoll_event, sigset_t, timespec};
use std::ptr::null;
use ulsock::api::{self, Verdict};

fn opened(fd: c_int) -> c_int {
    if fd >= 0 {
        errno::keep(|| api::epoll_opened(fd));
    }
    fd
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
        answer!(
            api::epoll_wait(epfd, events, max, pointer(&timeout), null()),
            real()(epfd, events, max, ms)
        )
    }

    redhook fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, ms: c_int, mask: *const sigset_t) -> c_int {
        let timeout = from_millis(ms);
        answer!(
            api::epoll_wait(epfd, events, max, pointer(&timeout), mask),
            real()(epfd, events, max, ms, mask)
        )
    }

    by_hand fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        answer!(
            if valid(timeout) { api::epoll_wait(epfd, events, max, timeout, mask) } else { Verdict::Bypass },
            real()(epfd, events, max, timeout, mask)
        )
    }
}
