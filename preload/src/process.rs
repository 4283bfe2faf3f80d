//! Processes that begin and end: fork in all its forms, and exit without destructors.

use crate::errno;
use libc::{CLONE_THREAD, CLONE_VM, c_char, c_int, c_void, pid_t};
use sockets::api;

/// Both ways out of a call that forks.
pub fn forking(fork: impl FnOnce() -> pid_t) -> pid_t {
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
    /// records, and could not return through this frame. The parent waits until the child has
    /// become another program or ended, as it would.
    redhook fn vfork() -> pid_t {
        let waiting = api::vfork_prepare();
        // SAFETY: no arguments.
        let child = unsafe { fork::hooked() };
        errno::keep(|| match child {
            0 => api::vfork_child(waiting),
            _ => api::vfork_parent(waiting, child),
        });
        child
    }

    #[expect(non_snake_case, reason = "libc's name")]
    by_hand fn _Fork() -> pid_t {
        // SAFETY: no arguments; both processes return from here.
        forking(|| unsafe { real()() })
    }

    by_hand fn openpty(master: *mut c_int, slave: *mut c_int, name: *mut c_char, termios: *const c_void, size: *const c_void) -> c_int {
        // SAFETY: the program's own arguments; libc has filled both numbers when it succeeds.
        unsafe {
            let result = real()(master, slave, name, termios, size);
            if result == 0 {
                errno::keep(|| (api::fd_opened(*master), api::fd_opened(*slave)));
            }
            result
        }
    }

    /// Written out, because the dup2 and close inside libc's would go unseen.
    by_hand fn login_tty(fd: c_int) -> c_int {
        // SAFETY: plain numbers; the program asked for 0 to 2 to be replaced.
        unsafe {
            libc::setsid();
            if libc::ioctl(fd, libc::TIOCSCTTY, 0) < 0 {
                return -1;
            }
            for stdio in 0..=2 {
                libc::dup2(fd, stdio);
            }
            if fd > 2 {
                libc::close(fd);
            }
            0
        }
    }

    /// Written out for the same reason.
    by_hand fn forkpty(master: *mut c_int, name: *mut c_char, termios: *const c_void, size: *const c_void) -> pid_t {
        // SAFETY: the program's own arguments; the two numbers are filled by `openpty`.
        unsafe {
            let (mut ours, mut theirs) = (0, 0);
            if openpty::hooked(&mut ours, &mut theirs, name, termios, size) < 0 {
                return -1;
            }
            let child = fork::hooked();
            if child == 0 {
                libc::close(ours);
                if login_tty::hooked(theirs) < 0 {
                    _exit::hooked(1);
                }
                return 0;
            }
            errno::keep(|| libc::close(theirs));
            if child > 0 {
                *master = ours;
            } else {
                errno::keep(|| libc::close(ours));
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
    fn __clone(entry: Entry, stack: *mut c_void, flags: c_int, arg: *mut c_void, parent_tid: *mut c_void, tls: *mut c_void, child_tid: *mut c_void) -> c_int = clone;
    fn __fork() -> pid_t = fork;
    fn __vfork() -> pid_t = vfork;
}
