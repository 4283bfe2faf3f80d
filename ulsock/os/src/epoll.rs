//! The kernel's own epoll set underneath, by system call: libc's wrappers are ours.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, epoll_event, sigset_t, timespec};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::door::Door;
use super::raw;

pub fn add(epfd: RawFd, fd: RawFd, events: u32, data: u64) -> Result<(), Errno> {
    raw_ctl(epfd, EPOLL_CTL_ADD, fd, events, data)
}

pub fn modify(epfd: RawFd, fd: RawFd, events: u32, data: u64) -> Result<(), Errno> {
    raw_ctl(epfd, EPOLL_CTL_MOD, fd, events, data)
}

pub fn delete(epfd: RawFd, fd: RawFd) -> Result<(), Errno> {
    raw_ctl(epfd, EPOLL_CTL_DEL, fd, 0, 0)
}

fn raw_ctl(epfd: RawFd, op: i32, fd: RawFd, events: u32, data: u64) -> Result<(), Errno> {
    let mut event = epoll_event { events, u64: data };
    let args = [
        epfd as usize,
        op as usize,
        fd as usize,
        &raw mut event as usize,
    ];
    // SAFETY: a pointer to a live local.
    unsafe { raw::syscall(libc::SYS_epoll_ctl, args) }.map(drop)
}

/// Waits; how many of `events` the kernel has written, from the first one on.
#[inline]
pub fn raw_wait(
    door: Door<'_>,
    epfd: RawFd,
    events: &mut [epoll_event],
    left: Option<Timespec>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let (at, room) = (events.as_mut_ptr().cast(), events.len());
    // SAFETY: the same memory, in which the kernel alone writes, and that only events.
    let room = unsafe { std::slice::from_raw_parts_mut(at, room) };
    raw_wait_into(door, epfd, room, left, mask)
}

/// Without waiting.
///
/// # Safety
/// There is room for `max` events, or the kernel refuses the call.
pub unsafe fn look(epfd: RawFd, events: *mut epoll_event, max: i32) -> Result<usize, Errno> {
    let args = [epfd as usize, events as usize, max as usize, 0, 0, 8];
    // SAFETY: the caller's promise; no time and no mask.
    unsafe { raw::syscall(libc::SYS_epoll_pwait, args) }
}

/// Those that the kernel has written.
///
/// # Safety
/// The first `n` have been written.
#[inline]
pub unsafe fn told(events: &mut [MaybeUninit<epoll_event>], n: usize) -> &mut [epoll_event] {
    let events = &mut events[..n];
    // SAFETY: the same memory for as long, and it is initialised, as the caller promises.
    unsafe { std::slice::from_raw_parts_mut(events.as_mut_ptr().cast(), n) }
}

/// The same into memory that may be uninitialised. In whole milliseconds by the older call, as the program would have made it.
pub fn raw_wait_into(
    door: Door<'_>,
    epfd: RawFd,
    events: &mut [MaybeUninit<epoll_event>],
    left: Option<Timespec>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let time = left.map(|left| timespec {
        tv_sec: left.tv_sec,
        tv_nsec: left.tv_nsec,
    });
    let (call, time) = match (millis(left), &time) {
        (Some(millis), _) => (libc::SYS_epoll_pwait, millis as usize),
        (None, Some(time)) => (libc::SYS_epoll_pwait2, std::ptr::from_ref(time) as usize),
        (None, None) => (libc::SYS_epoll_pwait, -1i32 as usize),
    };
    // SAFETY: room for `events.len()` events, a live timeout, a null or valid mask; 8 is the
    // kernel's sigset size.
    unsafe {
        let (at, count) = (events.as_mut_ptr() as usize, events.len());
        let args = [epfd as usize, at, count, time, mask as usize, 8];
        door.syscall(call, args)
    }
}

/// The whole of a time that is as long as this many milliseconds.
fn millis(time: Option<Timespec>) -> Option<i32> {
    let time = time.filter(|time| time.tv_nsec % 1_000_000 == 0)?;
    let millis = time.tv_sec.checked_mul(1000)? + time.tv_nsec / 1_000_000;
    millis.try_into().ok()
}
