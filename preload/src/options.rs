//! Questions and settings: fcntl, ioctl, socket options and names.

use crate::errno;
use libc::{F_DUPFD, F_DUPFD_CLOEXEC, c_int, c_ulong, c_void, sockaddr, socklen_t};
use sockets::api::{self, Verdict};

/// linux/sockios.h; not in the libc crate.
const SIOCATMARK: c_ulong = 0x8905;

/// Tells `api` about the duplicate that some commands make.
fn controlled(fd: c_int, cmd: c_int, result: c_int) -> c_int {
    if result >= 0 && matches!(cmd, F_DUPFD | F_DUPFD_CLOEXEC) {
        errno::keep(|| api::duped(fd, result));
    }
    result
}

hooks! {
    variadic fn fcntl(fd: c_int, cmd: c_int, arg: c_ulong) -> c_int {
        answer!(api::fcntl(fd, cmd, arg), controlled(fd, cmd, real()(fd, cmd, arg)))
    }

    variadic fn fcntl64(fd: c_int, cmd: c_int, arg: c_ulong) -> c_int {
        answer!(api::fcntl(fd, cmd, arg), controlled(fd, cmd, real()(fd, cmd, arg)))
    }

    variadic fn ioctl(fd: c_int, request: c_ulong, arg: c_ulong) -> c_int {
        answer!(api::ioctl(fd, request, arg), real()(fd, request, arg))
    }

    redhook fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        answer!(api::getsockopt(fd, level, name), {
            let result = real()(fd, level, name, value, len);
            if result == 0 {
                errno::keep(|| api::option_read(fd, level, name, value, len));
            }
            result
        })
    }

    redhook fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        answer!(api::setsockopt(fd, level, name, value, len), {
            let result = real()(fd, level, name, value, len);
            if result == 0 {
                errno::keep(|| api::option_set(fd, level, name));
            }
            result
        })
    }

    redhook fn sockatmark(fd: c_int) -> c_int {
        let mut at_mark: c_int = 0;
        // SAFETY: the request writes one int.
        let result = unsafe { ioctl::hooked(fd, SIOCATMARK, &raw mut at_mark as c_ulong) };
        if result < 0 { result } else { at_mark }
    }

    redhook fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        answer!(api::guard(fd), real()(fd, addr, len))
    }

    redhook fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        answer!(api::guard(fd), real()(fd, addr, len))
    }
}

aliases! {
    fn __fcntl(fd: c_int, cmd: c_int, arg: c_ulong) -> c_int = fcntl;
}
