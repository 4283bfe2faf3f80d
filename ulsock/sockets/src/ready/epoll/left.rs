//! Members that the kernel watches while bytes of theirs are left in a ring: their connections return
//! to the kernel, but a peer sends those bytes again only at its next call. Until then we tell of them.
//! What it sends again after the program has read it is thrown away, and is no news.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use libc::{POLLIN, c_short, epoll_event};

use super::member::Member;
use super::state::SetState;
use crate::conn::Conn;
use os::epoll as kernel;
use os::tcp;

impl SetState {
    /// The kernel watches the member from now on.
    pub fn note_left(&mut self, fd: RawFd) {
        let unsettled = |member: &Member| {
            Conn::enter(member.handle).is_some_and(|conn| !conn.is_settled_on_kernel())
        };
        if self.members.get(&fd).is_some_and(unsettled) && !self.left.contains(&fd) {
            self.left.push_back(fd);
        }
    }

    pub fn has_left(&self) -> bool {
        !self.left.is_empty() || !self.closed.is_empty()
    }

    /// Tells of those with bytes in a ring; who has none any more, and gets no more, is forgotten.
    pub fn tell_left(&mut self, events: &mut [MaybeUninit<epoll_event>]) -> usize {
        let mut told = 0;
        for _ in 0..self.left.len() {
            if told == events.len() {
                break;
            }
            let Some(fd) = self.left.pop_front() else {
                break;
            };
            let Some(event) = self.left_by(fd) else {
                continue;
            };
            self.left.push_back(fd);
            if event.events != 0 {
                events[told].write(event);
                told += 1;
                self.fire_left(fd);
            }
        }
        told
    }

    /// What to tell of a member now; `None`: it is the kernel's in every way.
    fn left_by(&mut self, fd: RawFd) -> Option<epoll_event> {
        let member = self.members.get_mut(&fd)?;
        let event = |revents: c_short, data| epoll_event {
            events: revents as u16 as u32,
            u64: data,
        };
        let nothing = event(0, member.data);
        let conn = Conn::enter(member.handle)?;
        if member.converted.is_some() || conn.is_settled_on_kernel() {
            return None;
        }
        let revents = conn.revents(member.wanted());
        if member.disabled || revents & POLLIN == 0 || !conn.has_ring_bytes() {
            return Some(nothing);
        }
        // The peer has sent them again: the kernel tells.
        if tcp::inq(conn.socket).is_ok_and(|n| n > 0) {
            return Some(nothing);
        }
        if member.is_edge() {
            let end = conn.stream_end().unwrap_or(member.told.end);
            if member.told.once && end <= member.told.end {
                return Some(nothing);
            }
            (member.told.once, member.told.end) = (true, end);
        }
        Some(event(revents, member.data))
    }

    fn fire_left(&mut self, fd: RawFd) {
        let oneshot = |member: &&mut Member| member.is_oneshot();
        if let Some(member) = self.members.get_mut(&fd).filter(oneshot) {
            member.disable();
            let events = Member::kernel_events(member.events, true);
            let _ = kernel::modify(member.epfd, fd, events, self.aliases.register(member.data));
        }
    }

    /// A kernel event with what the member that it is about has in a ring: to the program both are one event. Not where
    /// several have the same data.
    pub(super) fn with_left(&mut self, events: u32, data: u64) -> u32 {
        let about = |fd: &&RawFd| self.members.get(fd).is_some_and(|m| m.data == data);
        let Some(fd) = self.left.iter().find(about).copied() else {
            return events;
        };
        if self.members.values().filter(|m| m.data == data).count() > 1 {
            return events;
        }
        self.left_by(fd).map_or(events, |left| events | left.events)
    }

    /// A kernel event without what is about bytes that the program has read from a ring.
    pub(super) fn without_old(&self, events: u32, data: u64) -> u32 {
        if self.left.is_empty() || events & POLLIN as u32 == 0 {
            return events;
        }
        let members = self.left.iter().filter_map(|fd| self.members.get(fd));
        let mut about = members.filter(|member| member.data == data);
        let old = about.any(|member| {
            Conn::enter(member.handle).is_some_and(|conn| {
                tcp::inq(conn.socket).is_ok_and(|n| n > 0) && conn.revents(POLLIN) == 0
            })
        });
        if old {
            events & !(POLLIN as u32)
        } else {
            events
        }
    }
}
