//! Ties a child to us, and collects it when it is dead together with the CPU time it used: the things
//! here that need libc.
#![expect(
    unsafe_code,
    reason = "neither std nor rustix returns the rusage of one child, or acts between fork and exec"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// The kernel kills the child if we die: the guard may not have heard of it yet.
pub fn tie(command: &mut Command) {
    let us = std::process::id() as libc::pid_t;
    // SAFETY: the closure makes two system calls, which are async-signal-safe, and nothing else.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            match libc::getppid() == us {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        })
    };
}

/// Waits for `child` to end. Its status cannot be asked for again.
pub fn reap(child: &Child) -> io::Result<(ExitStatus, Duration)> {
    let pid = child.id() as libc::pid_t;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live locals that are large enough for what wait4 writes.
        let result = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if result == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: rusage is plain integers: the zeroes it began with are valid, and so is what wait4 wrote.
    let usage = unsafe { usage.assume_init() };
    Ok((
        ExitStatus::from_raw(status),
        duration(usage.ru_utime) + duration(usage.ru_stime),
    ))
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}
