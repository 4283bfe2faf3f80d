//! New programs: exec, and the calls with which libc forks and execs behind our back. `api` gets
//! its connections ready first.

use libc::{c_char, c_int, c_void, pid_t, FILE};
use ulsock::api;

use crate::errno;

type Strings = *const *const c_char;

/// Runs a real exec, which comes back only when it has failed.
macro_rules! executing {
    ($real:expr) => {{
        api::before_exec();
        // SAFETY: the program's own arguments.
        let failed = unsafe { $real };
        errno::keep(api::exec_failed);
        failed
    }};
}

macro_rules! spawning {
    ($real:expr) => {{
        api::before_spawn();
        // SAFETY: the program's own arguments.
        unsafe { $real }
    }};
}

hooks! {
    redhook fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int { executing!(real()(path, argv, envp)) }
    redhook fn execv(path: *const c_char, argv: Strings) -> c_int { executing!(real()(path, argv)) }
    redhook fn execvp(file: *const c_char, argv: Strings) -> c_int { executing!(real()(file, argv)) }
    redhook fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int { executing!(real()(file, argv, envp)) }
    redhook fn fexecve(fd: c_int, argv: Strings, envp: Strings) -> c_int { executing!(real()(fd, argv, envp)) }
    by_hand fn execveat(dir: c_int, path: *const c_char, argv: Strings, envp: Strings, flags: c_int) -> c_int {
        executing!(real()(dir, path, argv, envp, flags))
    }
    forward fn execl() { api::before_exec(); }
    forward fn execlp() { api::before_exec(); }
    forward fn execle() { api::before_exec(); }

    /// RTLD_NEXT finds the default version. The one of before glibc 2.15 differs in one thing: it
    /// runs a file without a magic number as a shell script.
    redhook fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, argv: Strings, envp: Strings) -> c_int {
        spawning!(real()(pid, path, actions, attributes, argv, envp))
    }
    redhook fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, argv: Strings, envp: Strings) -> c_int {
        spawning!(real()(pid, file, actions, attributes, argv, envp))
    }
    redhook fn system(command: *const c_char) -> c_int { spawning!(real()(command)) }
    redhook fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE { spawning!(real()(command, mode)) }
}
