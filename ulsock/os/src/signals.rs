//! Signals for a process that does nothing but wait for another: taken by a call instead of by handlers, with who has
//! sent them.

use std::time::Duration;

use libc::{c_int, siginfo_t};
use rustix::io::{self, Errno};

use super::{mask, raw};

/// A signal that was sent to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub signal: c_int,
    /// By a process, not by the kernel, as for a key at the terminal.
    pub by_process: bool,
}

/// Signals of these bits wait until they are taken. Programs that are started from here on inherit that.
pub fn block(signals: u64) {
    mask::replace(mask::current() | signals);
}

/// The next of them; `None` if none comes within the time.
pub fn take(signals: u64, time: Duration) -> io::Result<Option<Taken>> {
    const SIZE: usize = size_of::<u64>();
    let time = libc::timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: all zero is a value of this C structure.
    let mut info: siginfo_t = unsafe { std::mem::zeroed() };
    let (set, at) = (&raw const signals as usize, &raw mut info as usize);
    let args = [set, at, &raw const time as usize, SIZE];
    // SAFETY: the kernel reads the set and the time and fills `info`; all three live until it returns.
    match unsafe { raw::syscall(libc::SYS_rt_sigtimedwait, args) } {
        Ok(signal) => Ok(Some(Taken {
            signal: signal as c_int,
            by_process: info.si_code <= 0,
        })),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ends this process as that signal ends one, without a core of its own. Returns if it does not.
pub fn end_by(signal: c_int) {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: plain numbers, and a structure that is read.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
    if (1..=64).contains(&signal) {
        mask::replace(mask::current() & !mask::bit(signal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_sent_it() {
        let before = mask::current();
        let signal = mask::bit(libc::SIGUSR2);
        block(signal);
        let none = take(signal, Duration::ZERO);
        // SAFETY: the thread's own number; the signal is blocked.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
        let taken = take(signal, Duration::from_secs(60));
        mask::replace(before);
        assert_eq!(none, Ok(None));
        let (signal, by_process) = (libc::SIGUSR2, true);
        assert_eq!(taken, Ok(Some(Taken { signal, by_process })));
    }
}
