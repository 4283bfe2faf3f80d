//! Calls that return a new fd which is no socket: its number may have been one of ours before, so
//! its slot is reset.

use crate::errno;
use libc::{c_char, c_int, c_uint, c_void, mode_t, pid_t, sigset_t};
use sockets::api;

fn opened(fd: c_int) -> c_int {
    if fd >= 0 {
        errno::keep(|| api::fd_opened(fd));
    }
    fd
}

/// Calls the real function of the same name and resets the slot of the fd that it returns.
macro_rules! opening {
    ($real:expr) => {
        // SAFETY: the program's own arguments.
        opened(unsafe { $real })
    };
}

/// The same for the two fds of a pipe.
unsafe fn piped(pair: *const c_int, result: c_int) -> c_int {
    if result == 0 {
        // SAFETY: the kernel has just filled the program's array of two.
        unsafe { errno::keep(|| (api::fd_opened(*pair), api::fd_opened(*pair.add(1)))) };
    }
    result
}

hooks! {
    variadic fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int { opening!(real()(path, flags, mode)) }
    variadic fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int { opening!(real()(path, flags, mode)) }
    variadic fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int { opening!(real()(dir, path, flags, mode)) }
    variadic fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int { opening!(real()(dir, path, flags, mode)) }
    redhook fn __open_2(path: *const c_char, flags: c_int) -> c_int { opening!(real()(path, flags)) }
    redhook fn __open64_2(path: *const c_char, flags: c_int) -> c_int { opening!(real()(path, flags)) }
    redhook fn __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int { opening!(real()(dir, path, flags)) }
    redhook fn __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int { opening!(real()(dir, path, flags)) }
    redhook fn creat(path: *const c_char, mode: mode_t) -> c_int { opening!(real()(path, mode)) }
    redhook fn creat64(path: *const c_char, mode: mode_t) -> c_int { opening!(real()(path, mode)) }
    redhook fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int { opening!(real()(mount, handle, flags)) }

    redhook fn mkstemp(template: *mut c_char) -> c_int { opening!(real()(template)) }
    redhook fn mkstemp64(template: *mut c_char) -> c_int { opening!(real()(template)) }
    redhook fn mkostemp(template: *mut c_char, flags: c_int) -> c_int { opening!(real()(template, flags)) }
    redhook fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int { opening!(real()(template, flags)) }
    redhook fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int { opening!(real()(template, suffix)) }
    redhook fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int { opening!(real()(template, suffix)) }
    redhook fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int { opening!(real()(template, suffix, flags)) }
    redhook fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int { opening!(real()(template, suffix, flags)) }

    redhook fn pipe(pair: *mut c_int) -> c_int {
        // SAFETY: the program's own array of two.
        unsafe { piped(pair, real()(pair)) }
    }

    redhook fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
        // SAFETY: the program's own array of two.
        unsafe { piped(pair, real()(pair, flags)) }
    }

    redhook fn eventfd(count: c_uint, flags: c_int) -> c_int { opening!(real()(count, flags)) }
    redhook fn timerfd_create(clock: c_int, flags: c_int) -> c_int { opening!(real()(clock, flags)) }
    redhook fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int { opening!(real()(fd, mask, flags)) }
    redhook fn inotify_init() -> c_int { opening!(real()()) }
    redhook fn inotify_init1(flags: c_int) -> c_int { opening!(real()(flags)) }
    redhook fn fanotify_init(flags: c_uint, events: c_uint) -> c_int { opening!(real()(flags, events)) }
    redhook fn memfd_create(name: *const c_char, flags: c_uint) -> c_int { opening!(real()(name, flags)) }
    redhook fn posix_openpt(flags: c_int) -> c_int { opening!(real()(flags)) }
    redhook fn getpt() -> c_int { opening!(real()()) }
    variadic fn mq_open(name: *const c_char, flags: c_int, mode: mode_t, attributes: *const c_void) -> c_int { opening!(real()(name, flags, mode, attributes)) }
    by_hand fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int { opening!(real()(name, flags, mode)) }
    by_hand fn pidfd_open(pid: pid_t, flags: c_uint) -> c_int { opening!(real()(pid, flags)) }
    /// Of this process's own, as far as we know: then the two numbers are one socket.
    by_hand fn pidfd_getfd(pidfd: c_int, target: c_int, flags: c_uint) -> c_int {
        api::to_kernel(target);
        opening!(real()(pidfd, target, flags))
    }
}

aliases! {
    fn __open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = open;
    fn __open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = open64;
    fn __pipe(pair: *mut c_int) -> c_int = pipe;
}
