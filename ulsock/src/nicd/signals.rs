//! The wish to stop: SIGTERM and SIGINT, as something to read.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// From now on they do not end the process.
pub fn open() -> io::Result<OwnedFd> {
    // SAFETY: plain calls on a set of our own.
    let fd = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes those that have come.
pub fn take(fd: &OwnedFd) {
    let mut info = [0; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(fd, &mut info).is_ok() {}
}
