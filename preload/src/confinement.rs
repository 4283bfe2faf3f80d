//! Calls after which the process may do less: seccomp filters, another root, locked memory.

use crate::errno;
use libc::{PR_SET_SECCOMP, c_char, c_int, c_ulong};
use sockets::api;

hooks! {
    variadic fn prctl(option: c_int, arg2: c_ulong, arg3: c_ulong, arg4: c_ulong, arg5: c_ulong) -> c_int {
        if option == PR_SET_SECCOMP {
            api::before_sandbox();
        }
        // SAFETY: the program's own arguments.
        unsafe { real()(option, arg2, arg3, arg4, arg5) }
    }

    redhook fn chroot(path: *const c_char) -> c_int {
        errno::keep(api::before_chroot);
        // SAFETY: the program's own argument.
        unsafe { real()(path) }
    }

    redhook fn mlockall(flags: c_int) -> c_int {
        // SAFETY: libc's function, and a plain number.
        unsafe { api::mlockall(flags, real()) }
    }
}
