//! A member of an epoll set: what the program registered, and what we made of it.

use std::os::fd::RawFd;

use libc::{EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLWAKEUP};

use super::events::{OURS, ours_watched};
use super::shared::Registration;
use crate::conn::ready::Armed;
use crate::conn::{Conn, Handle};
use crate::state::record::flag;
use os::fds::InternalFd;

const ALWAYS: u32 = (EPOLLERR | EPOLLHUP) as u32;
const MODES: u32 = (EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP) as u32;

pub struct Member {
    pub fd: RawFd,
    /// The program has closed the number that it added, and goes on with another: `fd` is our own.
    pub moved: Option<Moved>,
    pub handle: Handle,
    /// The program's own registration, and the epoll number it used.
    pub events: u32,
    pub data: u64,
    pub epfd: RawFd,
    /// Ours in the kernel, readiness comes from us; and the program's, for a child that takes over.
    pub converted: Option<Registration>,
    /// What the kernel tells us of, once it is ours.
    pub asked: u32,
    /// The kernel has just got our registration, and tells once what held then: no wake-up.
    pub echoes: bool,
    /// One-shot, and its shot is fired; or parked.
    pub disabled: bool,
    /// The program has removed it; see [`super::park`].
    pub parked: bool,
    /// Of its entries in the set's queue, the one that counts; zero: none.
    pub ticket: u64,
    pub armed: Armed,
    /// The name on our wires: the set's waiter and its board in this member's segment.
    pub name: u32,
    pub told: Told,
}

/// A member at a number of our own.
pub struct Moved {
    /// Closes `fd` when the member goes.
    pub _own: InternalFd,
    /// The program's number.
    pub from: RawFd,
}

/// What a member knows already; all but `blocked` is for edge-triggered ones.
#[derive(Default)]
pub struct Told {
    /// Where the stream ended when it was last told.
    pub end: u64,
    /// The peer's FIN, errors and urgent bytes that it was told of and that still hold.
    pub ends: libc::c_short,
    /// It has been told something since it was added or changed.
    pub once: bool,
    /// It could not write when last asked: that it can is news.
    pub blocked: bool,
    /// Bytes that the kernel socket had received when it was last told of an urgent one.
    pub received: u64,
}

impl Member {
    pub fn new(handle: Handle, epfd: RawFd, events: u32, data: u64) -> Member {
        Member {
            fd: handle.fd,
            moved: None,
            handle,
            events,
            data,
            epfd,
            converted: None,
            asked: 0,
            echoes: false,
            disabled: false,
            parked: false,
            ticket: 0,
            armed: Armed::default(),
            name: 0,
            told: Told::default(),
        }
    }

    pub fn is_edge(&self) -> bool {
        self.events & EPOLLET as u32 != 0
    }

    pub fn is_oneshot(&self) -> bool {
        self.events & EPOLLONESHOT as u32 != 0
    }

    pub fn is_exclusive(&self) -> bool {
        Member::asks_exclusively(self.events)
    }

    pub fn asks_exclusively(events: u32) -> bool {
        events & EPOLLEXCLUSIVE as u32 != 0
    }

    /// The program changes its registration: whatever holds then is news.
    pub fn change(&mut self, events: u32, data: u64) {
        self.events = events;
        self.data = data;
        self.disabled = false;
        self.told = Told::default();
        if let Some(registration) = self.converted {
            registration.set(events, data, false);
        }
    }

    /// Nothing more is to be told until it changes.
    pub fn disable(&mut self) {
        self.disabled = true;
        if let Some(registration) = self.converted {
            registration.disable();
        }
    }

    /// The kernel tells something of one of ours. What it tells after the program's own end of the stream wakes whoever waits,
    /// and so it is news: that the peer has acknowledged the end, for one. So are bytes that the kernel has told of while
    /// nobody can say where the stream ends.
    pub fn hear(&mut self, events: u32, conn: &Conn<'_>) {
        let is_echo = std::mem::take(&mut self.echoes);
        let ended =
            events & ALWAYS != 0 || events & EPOLLIN as u32 == 0 && conn.record.has(flag::SHUT);
        let bytes = events & EPOLLIN as u32 != 0 && conn.may_miss_bytes();
        if self.is_edge() && (ended || bytes) && !is_echo {
            self.told.once = false;
        }
    }

    /// The events to ask a connection for; epoll's bits are poll's.
    pub fn wanted(&self) -> libc::c_short {
        ((self.events & !MODES) | ALWAYS) as libc::c_short
    }

    /// What the kernel is to tell us of, in a set that is `watched` from outside or not.
    pub fn to_ask(&self, watched: bool, conn: &Conn<'_>) -> u32 {
        if !watched {
            return OURS;
        }
        // On a link the kernel brings records, too, whatever the program wants.
        let wants = match conn.is_nic() {
            true => u32::MAX,
            false => self.events,
        };
        ours_watched(wants, self.told.blocked && conn.sends_by_kernel())
    }

    /// What the kernel itself has registered once a shot is fired: nothing but the modes.
    pub fn kernel_events(events: u32, disabled: bool) -> u32 {
        if disabled {
            events & (EPOLLONESHOT | EPOLLET | EPOLLWAKEUP) as u32
        } else {
            events
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    /// A member that has been told, with the echo of its registration still to come.
    fn told(handle: Handle, events: i32) -> Member {
        let mut member = Member::new(handle, -1, events as u32, 0);
        member.echoes = true;
        member.told.once = true;
        member
    }

    #[test]
    fn wake_ups_after_the_end_are_news_and_echoes_are_not() {
        let world = World::promoted();
        let is_news = |events: i32, heard: u32| {
            world.server.run(|| {
                let handle = crate::conn::managed(world.far.0).unwrap();
                let mut member = told(handle, events);
                [(); 2].map(|()| {
                    member.hear(heard, &Conn::enter(handle).unwrap());
                    !member.told.once
                })
            })
        };
        let (out, hup) = (libc::EPOLLOUT as u32, EPOLLHUP as u32);
        assert_eq!(is_news(EPOLLET, hup), [false, true]);
        assert_eq!(is_news(EPOLLIN, hup), [false, false], "no edge");
        assert_eq!(is_news(EPOLLET, out), [false, false]);
        world.server.shut_down_sending(world.far);
        assert_eq!(is_news(EPOLLET, out), [false, true]);
        assert_eq!(is_news(EPOLLET, out | EPOLLIN as u32), [false, false]);
    }
}
