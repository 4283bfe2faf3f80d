//! The kernel's poll, by system call: libc's wrapper is ours.

use std::os::fd::RawFd;

use libc::{c_short, pollfd, sigset_t};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::door::Door;

/// A poll that does not wait.
pub const NOT_AT_ALL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Without waiting.
pub fn poll_now(fds: &mut [pollfd]) -> Result<usize, Errno> {
    let door = Door::always_open();
    raw_ppoll(door, fds, Some(NOT_AT_ALL), std::ptr::null())
}

/// A look at one number: has it one of these events, or an end, or an error? An error of the look itself counts as well:
/// whoever waits for the number makes the call that tells it.
pub fn has_something(fd: RawFd, events: c_short) -> bool {
    let mut entry = [pollfd {
        fd,
        events,
        revents: 0,
    }];
    poll_now(&mut entry) != Ok(0)
}

/// Without waiting, for some time, or for ever.
pub fn raw_ppoll(
    door: Door<'_>,
    fds: &mut [pollfd],
    left: Option<Timespec>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let left = left.map(|left| libc::timespec {
        tv_sec: left.tv_sec,
        tv_nsec: left.tv_nsec,
    });
    let time = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    ppoll_at(door, fds, time, mask)
}

/// The system call itself: libc's wrapper is ours. It writes the time that is left to `time`, if it
/// can.
pub fn ppoll_at(
    door: Door<'_>,
    fds: &mut [pollfd],
    time: *const libc::timespec,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let (at, count) = (fds.as_mut_ptr() as usize, fds.len());
    // SAFETY: pointers to what lives during the call, the mask null or valid; 8 is the kernel's
    // sigset size.
    unsafe {
        door.syscall(
            libc::SYS_ppoll,
            [at, count, time as usize, mask as usize, 8],
        )
    }
}
