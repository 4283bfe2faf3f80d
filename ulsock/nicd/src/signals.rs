//! Wishes, as something to read: SIGTERM and SIGINT to stop, SIGHUP to read the peers file anew; and for tests
//! SIGUSR1, which ends an engine.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// From now on they do not end the process.
pub fn open() -> io::Result<OwnedFd> {
    // SAFETY: a set of signals is plain integers, for which zeroes are valid; the calls get a pointer to this one, which
    // lives until they return.
    let fd = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1] {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    pub stop: bool,
    pub reload: bool,
    pub end_engine: bool,
}

/// Takes those that have come.
pub fn take(fd: &OwnedFd) -> Wishes {
    let mut wishes = Wishes::default();
    let mut info = [0; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(fd, &mut info).is_ok() {
        // Its number comes first.
        match i32::from_ne_bytes([info[0], info[1], info[2], info[3]]) {
            libc::SIGHUP => wishes.reload = true,
            libc::SIGUSR1 => wishes.end_engine = true,
            _ => wishes.stop = true,
        }
    }
    wishes
}
