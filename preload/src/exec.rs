//! New programs: exec, and the calls with which libc forks and execs behind our back. `api` gets
//! its connections ready first.

use libc::{FILE, c_char, c_int, c_void, pid_t};
use sockets::api;
use std::ffi::CStr;
use std::ptr::null;

use crate::errno;
use crate::list::List;
use crate::spawn_actions;

pub type Strings = *const *const c_char;

/// Runs a real exec with this environment (null: our own), which comes back only when it has failed.
macro_rules! executing {
    ($envp:expr, $real:expr) => {{
        // SAFETY: the program's own arguments.
        let failed = unsafe {
            api::before_exec($envp);
            $real
        };
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

/// Would `wordexp` start a shell?
unsafe fn substitutes(words: *const c_char) -> bool {
    if words.is_null() {
        return false;
    }
    // SAFETY: the program's own string.
    let words = unsafe { CStr::from_ptr(words) }.to_bytes();
    words.contains(&b'`') || words.windows(2).any(|pair| pair == b"$(")
}

hooks! {
    redhook fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int { executing!(envp, real()(path, argv, envp)) }
    redhook fn execv(path: *const c_char, argv: Strings) -> c_int { executing!(null(), real()(path, argv)) }
    redhook fn execvp(file: *const c_char, argv: Strings) -> c_int { executing!(null(), real()(file, argv)) }
    redhook fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int { executing!(envp, real()(file, argv, envp)) }
    redhook fn fexecve(fd: c_int, argv: Strings, envp: Strings) -> c_int { executing!(envp, real()(fd, argv, envp)) }
    by_hand fn execveat(dir: c_int, path: *const c_char, argv: Strings, envp: Strings, flags: c_int) -> c_int {
        executing!(envp, real()(dir, path, argv, envp, flags))
    }

    listed fn execl(path: *const c_char, list: &List) -> c_int {
        // SAFETY: execl's caller ends its list with a null pointer.
        unsafe { list.with(|argv| execv::hooked(path, argv)) }
    }
    listed fn execlp(file: *const c_char, list: &List) -> c_int {
        // SAFETY: execlp's caller ends its list with a null pointer.
        unsafe { list.with(|argv| execvp::hooked(file, argv)) }
    }
    /// The environment follows the null pointer.
    listed fn execle(path: *const c_char, list: &List) -> c_int {
        // SAFETY: execle's caller ends its list with a null pointer, and puts the environment behind it.
        unsafe {
            let envp = list.after() as Strings;
            list.with(|argv| execve::hooked(path, argv, envp))
        }
    }

    /// RTLD_NEXT finds the default version. The one of before glibc 2.15 differs in one thing: it
    /// runs a file without a magic number as a shell script.
    redhook fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, argv: Strings, envp: Strings) -> c_int {
        // SAFETY: the program's own file actions.
        unsafe { spawn_actions::prepare(actions) };
        spawning!(real()(pid, path, actions, attributes, argv, envp))
    }
    redhook fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, argv: Strings, envp: Strings) -> c_int {
        // SAFETY: the program's own file actions.
        unsafe { spawn_actions::prepare(actions) };
        spawning!(real()(pid, file, actions, attributes, argv, envp))
    }
    redhook fn system(command: *const c_char) -> c_int { spawning!(real()(command)) }
    redhook fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE { spawning!(real()(command, mode)) }
    #[expect(non_snake_case, reason = "libc's name")]
    redhook fn _IO_proc_open(stream: *mut FILE, command: *const c_char, mode: *const c_char) -> *mut FILE {
        spawning!(real()(stream, command, mode))
    }
    redhook fn wordexp(words: *const c_char, result: *mut c_void, flags: c_int) -> c_int {
        // SAFETY: the program's own arguments.
        unsafe {
            if substitutes(words) {
                api::before_spawn();
            }
            real()(words, result, flags)
        }
    }
}

aliases! {
    fn _IO_popen(command: *const c_char, mode: *const c_char) -> *mut FILE = popen;
}
