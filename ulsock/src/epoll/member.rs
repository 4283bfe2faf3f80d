//! A member of an epoll set: what the program registered, and what we made of it.

use std::os::fd::RawFd;

use libc::{EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLONESHOT, EPOLLWAKEUP};

use crate::conn::ready::Armed;
use crate::conn::Handle;

const ALWAYS: u32 = (EPOLLERR | EPOLLHUP) as u32;
const MODES: u32 = (EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP) as u32;

pub struct Member {
    pub fd: RawFd,
    pub handle: Handle,
    /// The program's own registration, and the epoll number it used.
    pub events: u32,
    pub data: u64,
    pub epfd: RawFd,
    /// The kernel's registration is ours; readiness comes from us.
    pub converted: bool,
    /// One-shot, and its shot is fired.
    pub disabled: bool,
    /// In the set's list of those to look at.
    pub queued: bool,
    pub armed: Armed,
    /// The name on our wires: the set's waiter and its board in this member's segment.
    pub name: u32,
    /// Edge-triggered: the sender's tail when it was last told.
    pub told: u64,
}

impl Member {
    pub fn new(fd: RawFd, handle: Handle, epfd: RawFd, events: u32, data: u64) -> Member {
        Member {
            fd,
            handle,
            events,
            data,
            epfd,
            converted: false,
            disabled: false,
            queued: false,
            armed: Armed::default(),
            name: 0,
            told: 0,
        }
    }

    pub fn is_edge(&self) -> bool {
        self.events & EPOLLET as u32 != 0
    }

    pub fn is_oneshot(&self) -> bool {
        self.events & EPOLLONESHOT as u32 != 0
    }

    pub fn is_exclusive(&self) -> bool {
        self.events & EPOLLEXCLUSIVE as u32 != 0
    }

    /// The events to ask a connection for; epoll's bits are poll's.
    pub fn wanted(&self) -> libc::c_short {
        ((self.events & !MODES) | ALWAYS) as libc::c_short
    }
}
