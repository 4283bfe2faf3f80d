//! Registrations whose number this process has closed, while another holds the socket: the kernel goes on telling about them,
//! and they can no longer be changed. Their connections are on the kernel or return to it, but bytes may be left in a ring
//! that the peer sends again only at its next call. Until then we tell of them.
//!
//! No number is kept for that: it would keep the socket open when its last holder closes it. The ring shows what is left in
//! it, and the kernel says whether the registration is still there.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use libc::{EPOLLERR, EPOLLHUP, EPOLLIN, epoll_event};
use rustix::fs::fstat;

use super::member::Member;
use super::shared::Registration;
use super::state::SetState;
use super::tag::Aliases;
use crate::conn::{Conn, Handle};
use crate::state::record::State;
use crate::state::ring_pair::RingRest;
use os::epoll_info::{Registered, registered};

/// Bits of what is told that the program need not ask for.
const ALWAYS: u32 = (EPOLLERR | EPOLLHUP) as u32;

pub struct ClosedMember {
    /// With the number that it is registered by.
    handle: Handle,
    epfd: RawFd,
    inode: u64,
    program: ProgramsEntry,
    /// In a child: the owner of the set has it converted still, and says here what the program registers.
    owners: Option<Registration>,
    /// Edge-triggered: where the stream ended when it was last told.
    told: Option<u64>,
    /// It is in the answer that is being made.
    is_in_answer: bool,
    rest: RingRest,
    lowat: u64,
}

/// What the program registered.
#[derive(Clone, Copy)]
struct ProgramsEntry {
    events: u32,
    data: u64,
    /// One-shot, and its shot is fired.
    disabled: bool,
}

impl ClosedMember {
    /// `None`: the kernel can tell all of it.
    fn of(member: &Member, is_owner: bool) -> Option<ClosedMember> {
        let conn = Conn::enter(member.handle)?;
        let owners = member.converted.filter(|_| !is_owner);
        if owners.is_none() && (member.disabled || conn.rx_settled()) {
            return None;
        }
        Some(ClosedMember {
            handle: member.handle,
            epfd: member.epfd,
            inode: fstat(conn.socket).ok()?.st_ino,
            program: ProgramsEntry {
                events: member.events,
                data: member.data,
                disabled: member.disabled,
            },
            owners,
            told: member.told.once.then_some(member.told.end),
            is_in_answer: false,
            rest: conn.rest_in_ring()?,
            lowat: conn.least_to_tell() as u64,
        })
    }

    fn is_oneshot(&self) -> bool {
        self.program.events & libc::EPOLLONESHOT as u32 != 0
    }

    /// Its owner has not made the kernel's registration the program's own yet.
    fn is_converted(&self) -> bool {
        self.owners.is_some_and(|owners| owners.get().is_some())
    }

    /// Does nobody need us to tell of it any more?
    fn is_over(&self) -> bool {
        let record = self.handle.record_now();
        let lives = record.is_some_and(|record| record.state() == State::Managed);
        let fired = self.is_oneshot() && self.program.disabled;
        !lives || !fired && !self.is_converted() && self.rest.is_over()
    }

    fn has_news(&mut self) -> bool {
        if let Some((events, data, disabled)) = self.owners.and_then(|owners| owners.get()) {
            self.program = ProgramsEntry {
                events,
                data,
                disabled,
            };
        }
        let edge = self.program.events & libc::EPOLLET as u32 != 0;
        let known = edge && self.told.is_some_and(|told| self.rest.end() <= told);
        !self.program.disabled
            && self.program.events & EPOLLIN as u32 != 0
            && self.rest.unread() >= self.lowat
            && !known
    }

    fn is(&self, other: &Registered) -> bool {
        (self.handle.fd, self.inode) == (other.fd, other.inode)
    }

    /// Only the kernel knows whether the socket is still open anywhere. In doubt it is.
    fn is_registered(&mut self) -> bool {
        let Ok(all) = registered(self.epfd) else {
            return true;
        };
        let found = all.iter().find(|other| self.is(other));
        // What a child has as it was at the fork may have changed.
        if let Some(now) = found.filter(|now| self.owners.is_some() && !Aliases::needed(now.data)) {
            (self.program.events, self.program.data) = (now.events & !ALWAYS, now.data);
        }
        found.is_some()
    }

    fn tell(&mut self) {
        self.told = Some(self.rest.end());
        self.program.disabled = self.is_oneshot();
    }
}

impl SetState {
    /// The number of this member is about to be closed, and another process holds the socket.
    pub fn note_closed(&mut self, fd: RawFd) {
        let is_owner = self.owner == os::pid::get();
        let here = |member: &&Member| !member.parked;
        let member = self.members.get(&fd).filter(here);
        if let Some(closed) = member.and_then(|member| ClosedMember::of(member, is_owner)) {
            self.prune_closed();
            self.closed.push_back(closed);
        }
    }

    /// Of many, those that the kernel has forgotten go. At each doubling: it is a look at the whole set.
    fn prune_closed(&mut self) {
        if self.closed.len() >= 16 && self.closed.len().is_power_of_two() {
            self.closed
                .retain_mut(|closed| !closed.is_over() && closed.is_registered());
        }
    }

    /// Those with bytes in a ring, and what the kernel says about other things: the kernel is to be asked first.
    pub fn has_closed_news(&mut self) -> bool {
        self.closed.retain(|closed| !closed.is_over());
        self.closed.iter_mut().for_each(|closed| {
            closed.is_in_answer = false;
        });
        self.closed.iter_mut().any(ClosedMember::has_news)
    }

    /// Tells of those with bytes in a ring that are not in the answer already, with what the kernel has said.
    pub fn tell_closed(&mut self, events: &mut [MaybeUninit<epoll_event>]) -> usize {
        let mut told = 0;
        for _ in 0..self.closed.len() {
            if told == events.len() {
                break;
            }
            let Some(mut closed) = self.closed.pop_front() else {
                break;
            };
            if !closed.is_in_answer && closed.has_news() {
                if !closed.is_registered() {
                    continue;
                }
                events[told].write(epoll_event {
                    events: EPOLLIN as u32,
                    u64: closed.program.data,
                });
                told += 1;
                closed.tell();
            }
            self.closed.push_back(closed);
        }
        told
    }

    /// A kernel event with what a closed one that it is about has in a ring: to the program both are one event.
    pub(super) fn with_closed(&mut self, events: u32, data: u64) -> u32 {
        let about = |closed: &ClosedMember| closed.program.data == data;
        let Some(at) = self.closed.iter().position(about) else {
            return events;
        };
        if self.members.values().any(|member| member.data == data) {
            return events;
        }
        let closed = &mut self.closed[at];
        let news = closed.has_news();
        closed.is_in_answer = true;
        if closed.is_oneshot() {
            // The kernel has fired its shot.
            self.closed.remove(at);
        } else if news {
            closed.tell();
        }
        if news {
            events | EPOLLIN as u32
        } else {
            events
        }
    }

    /// Is this kernel event the second one of a shot that we have fired? We could not tell the kernel.
    pub(super) fn was_fired_closed(&mut self, data: u64) -> bool {
        let fired = |closed: &ClosedMember| {
            closed.program.data == data && closed.is_oneshot() && closed.program.disabled
        };
        let Some(at) = self.closed.iter().position(fired) else {
            return false;
        };
        let all = registered(self.closed[at].epfd).unwrap_or_default();
        let mut same = all.iter().filter(|other| other.data == data);
        let is_it = same.next().is_some_and(|first| self.closed[at].is(first));
        let only = is_it && same.next().is_none();
        if only {
            self.closed.remove(at);
        }
        only
    }

    /// An event of a registration that the owner of the set has converted, in a child that has closed the number.
    pub(super) fn event_of_closed(&mut self, fd: RawFd, events: u32) -> Option<epoll_event> {
        let about = |closed: &&mut ClosedMember| closed.handle.fd == fd && closed.owners.is_some();
        let closed = self.closed.iter_mut().find(about)?;
        let in_ring = if closed.has_news() { EPOLLIN as u32 } else { 0 };
        let told = (events | in_ring) & (closed.program.events | ALWAYS);
        if told == 0 || closed.program.disabled {
            return None;
        }
        closed.is_in_answer = true;
        closed.tell();
        Some(epoll_event {
            events: told,
            u64: closed.program.data,
        })
    }

    /// In a child: are there registrations that only the owner of the set can put back?
    pub(super) fn waits_for_owner(&self) -> bool {
        self.closed.iter().any(ClosedMember::is_converted)
    }
}
