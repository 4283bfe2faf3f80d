//! The kernel's own epoll set underneath, by system call: libc's wrappers are ours.

use std::os::fd::RawFd;

use libc::{epoll_event, sigset_t, timespec, EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::member::Member;
use crate::sys::raw;

/// A converted member's kernel registration.
pub const OURS: u32 = (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) as u32;

/// Changes a member's kernel registration; an exclusive one cannot be modified, only made anew.
pub fn register(member: &Member, events: u32, data: u64) -> Result<(), Errno> {
    let event = epoll_event { events, u64: data };
    if member.is_exclusive() {
        raw_ctl(member.epfd, libc::EPOLL_CTL_DEL, member.fd, event)?;
        return raw_ctl(member.epfd, libc::EPOLL_CTL_ADD, member.fd, event);
    }
    raw_ctl(member.epfd, libc::EPOLL_CTL_MOD, member.fd, event)
}

pub fn raw_ctl(epfd: RawFd, op: i32, fd: RawFd, mut event: epoll_event) -> Result<(), Errno> {
    let args = [
        epfd as usize,
        op as usize,
        fd as usize,
        &raw mut event as usize,
    ];
    // SAFETY: a pointer to a live local.
    unsafe { raw::syscall(libc::SYS_epoll_ctl, args) }.map(drop)
}

pub fn raw_wait(
    epfd: RawFd,
    events: &mut [epoll_event],
    left: Option<Timespec>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let left = left.map(|left| timespec {
        tv_sec: left.tv_sec,
        tv_nsec: left.tv_nsec,
    });
    let time = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: room for `events.len()` events, a live or null timeout, a null or valid mask; 8 is the
    // kernel's sigset size.
    unsafe {
        let (at, count) = (events.as_mut_ptr() as usize, events.len());
        let args = [epfd as usize, at, count, time as usize, mask as usize, 8];
        raw::syscall(libc::SYS_epoll_pwait2, args)
    }
}
