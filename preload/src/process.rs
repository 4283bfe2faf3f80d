//! Processes that begin and end: fork in all its forms, and exit without destructors.

use crate::errno;
use libc::{c_char, c_int, c_void, pid_t, CLONE_THREAD, CLONE_VM};
use ulsock::api;

/// Both ways out of a call that forks.
fn forking(fork: impl FnOnce() -> pid_t) -> pid_t {
    api::fork_prepare();
    let child = fork();
    errno::keep(|| match child {
        0 => api::fork_child(),
        child => api::fork_parent(child),
    });
    child
}

type Entry = extern "C" fn(*mut c_void) -> c_int;

/// What a cloned process is to run.
struct Start {
    entry: Entry,
    arg: *mut c_void,
}

/// The first function of a cloned process that has its own memory.
extern "C" fn start(start: *mut c_void) -> c_int {
    api::fork_child();
    // SAFETY: the parent's `Start`, in the copy of its memory that the child was given.
    let Start { entry, arg } = unsafe { start.cast::<Start>().read() };
    let status = entry(arg);
    // libc now ends the process by a system call of its own.
    api::exiting();
    status
}

/// The child's half of `daemon`, in glibc's order.
unsafe fn detach(nochdir: c_int, noclose: c_int) -> c_int {
    // SAFETY: C strings and plain numbers; the fds are closed and replaced as the caller asked.
    unsafe {
        if libc::setsid() < 0 || (nochdir == 0 && libc::chdir(c"/".as_ptr()) < 0) {
            return -1;
        }
        if noclose != 0 {
            return 0;
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null < 0 {
            return -1;
        }
        for fd in 0..=2 {
            libc::dup2(null, fd);
        }
        if null > 2 {
            libc::close(null);
        }
        0
    }
}

hooks! {
    redhook fn fork() -> pid_t {
        // SAFETY: no arguments; both processes return from here.
        forking(|| unsafe { real()() })
    }

    /// Acts as fork: a child on its parent's memory would run our fork bookkeeping on the parent's
    /// records, and could not return through this frame.
    redhook fn vfork() -> pid_t {
        // SAFETY: no arguments.
        unsafe { fork::hooked() }
    }

    #[expect(non_snake_case, reason = "libc's name")]
    by_hand fn _Fork() -> pid_t {
        // SAFETY: no arguments; both processes return from here.
        forking(|| unsafe { real()() })
    }

    by_hand fn forkpty(master: *mut c_int, name: *mut c_char, termios: *const c_void, size: *const c_void) -> pid_t {
        // SAFETY: the program's own arguments; libc has filled `master` when it returns a child.
        unsafe {
            let child = forking(|| real()(master, name, termios, size));
            if child > 0 {
                errno::keep(|| api::fd_opened(*master));
            }
            child
        }
    }

    /// Written out, because the fork, the exit and the dup2 inside libc's would go unseen.
    redhook fn daemon(nochdir: c_int, noclose: c_int) -> c_int {
        // SAFETY: no arguments but numbers; the parent ends here.
        unsafe {
            match fork::hooked() {
                -1 => -1,
                0 => detach(nochdir, noclose),
                _ => _exit::hooked(0),
            }
        }
    }

    /// A fork if the child gets its own memory; a thread is nothing to us; anything between is a
    /// child that execs on its parent's memory, as posix_spawn makes them.
    variadic fn clone(entry: Entry, stack: *mut c_void, flags: c_int, arg: *mut c_void, parent_tid: *mut c_void, tls: *mut c_void, child_tid: *mut c_void) -> c_int {
        // SAFETY: the program's own arguments; `Start` outlives the call, and the child reads it
        // in its own copy of this stack.
        unsafe {
            if flags & CLONE_VM == 0 {
                let first = Start { entry, arg };
                let first = (&raw const first).cast_mut().cast();
                return forking(|| real()(start, stack, flags, first, parent_tid, tls, child_tid));
            }
            if flags & CLONE_THREAD == 0 {
                api::before_spawn();
            }
            real()(entry, stack, flags, arg, parent_tid, tls, child_tid)
        }
    }

    by_hand fn _exit(status: c_int) -> ! {
        api::exiting();
        // SAFETY: a plain number.
        unsafe { real()(status) }
    }

    #[expect(non_snake_case, reason = "libc's name")]
    by_hand fn _Exit(status: c_int) -> ! {
        api::exiting();
        // SAFETY: a plain number.
        unsafe { real()(status) }
    }
}

aliases! {
    fn __fork() -> pid_t = fork;
    fn __vfork() -> pid_t = vfork;
}
