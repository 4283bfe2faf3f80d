//! The limits that a process sets on itself: those of address space count what is ours too, and
//! without descriptors there is none for us.

use crate::errno;
use libc::{c_int, c_uint, pid_t, rlimit};
use sockets::api;

/// Sets a limit by `set`, which gets it as the kernel is to have it.
unsafe fn setting(
    resource: c_uint,
    limit: *const rlimit,
    set: impl FnOnce(*const rlimit) -> c_int,
) -> c_int {
    if !api::limit_concerns_us(resource) || limit.is_null() {
        return set(limit);
    }
    // SAFETY: any bytes are a limit.
    let Some(wanted) = (unsafe { api::load(limit) }) else {
        return set(limit);
    };
    let wanted = errno::keep(|| api::before_limit(resource, wanted));
    let result = set(&wanted);
    if result == 0 {
        api::limit_set(resource, &wanted);
    }
    result
}

/// Shows the program a limit that the kernel has answered with, raised by so much.
unsafe fn show(result: c_int, limit: *mut rlimit, by: u64) -> c_int {
    if result == 0 && by > 0 && !limit.is_null() {
        // SAFETY: the kernel has just written there.
        unsafe { *limit = api::lower_limit(*limit, by) };
    }
    result
}

/// Whether `pid` names this process.
fn is_me(pid: pid_t) -> bool {
    pid == 0 || pid as u32 == std::process::id()
}

hooks! {
    redhook fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
        // SAFETY: the program's own arguments.
        unsafe { setting(resource, limit, |limit| real()(resource, limit)) }
    }

    redhook fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
        // SAFETY: the program's own arguments; on this architecture the two are one.
        unsafe { setrlimit::hooked(resource, limit) }
    }

    redhook fn getrlimit(resource: c_uint, limit: *mut rlimit) -> c_int {
        // SAFETY: the program's own arguments.
        unsafe { show(real()(resource, limit), limit, api::raised_limit(resource)) }
    }

    redhook fn getrlimit64(resource: c_uint, limit: *mut rlimit) -> c_int {
        // SAFETY: the program's own arguments; on this architecture the two are one.
        unsafe { getrlimit::hooked(resource, limit) }
    }

    redhook fn prlimit(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
        if !is_me(pid) {
            // SAFETY: the program's own arguments.
            return unsafe { real()(pid, resource, new, old) };
        }
        let before = api::raised_limit(resource);
        // SAFETY: the program's own arguments.
        unsafe {
            let result = setting(resource, new, |new| real()(pid, resource, new, old));
            show(result, old, before)
        }
    }

    redhook fn prlimit64(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
        // SAFETY: the program's own arguments; on this architecture the two are one.
        unsafe { prlimit::hooked(pid, resource, new, old) }
    }
}
