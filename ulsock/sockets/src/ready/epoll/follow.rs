//! A set that several processes hold: how each follows what the others do to it.

use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::member::Member;
use super::shared::{Holders, Registration};
use super::state::SetState;
use super::tag::Aliases;
use crate::runtime::deadline::Deadline;
use os::backoff::Backoff;
use os::epoll as kernel;
use rendezvous::reason::Reason;
use shm::waiter::Waiter;

/// How long a child waits for the owner of a set to put registrations back that it cannot reach itself.
const OWNERS_TIME: Duration = Duration::from_millis(10);

impl SetState {
    pub fn is_alone(&self) -> bool {
        let epfd = || self.members.values().next().map(|member| member.epfd);
        self.holders.is_some_and(|holders| {
            holders.forget_those_who_closed(epfd);
            holders.is_alone(os::pid::get())
        })
    }

    /// Two processes read the same kernel set. The one that inherited it and now uses it puts the
    /// program's registrations back; the other finds out, and leaves them there.
    pub fn follow_processes(&mut self) {
        if self.owner != os::pid::get() {
            self.owner = os::pid::get();
            self.take_over();
            return;
        }
        let done = self.holders.map_or(0, Holders::done);
        if self.done != done {
            self.done = done;
            self.let_members_go();
        }
    }

    /// Would that do nothing?
    #[inline]
    pub fn is_followed(&self) -> bool {
        self.owner == os::pid::get() && self.done == self.holders.map_or(0, Holders::done)
    }

    fn take_over(&mut self) {
        if let Some(holders) = self.holders {
            holders.begin_taking();
        }
        for member in self.members.values_mut() {
            if let Some(registration) = member.converted.take() {
                put_back(member, registration, &mut self.aliases);
            }
        }
        let epfd = self.members.values().next().map(|member| member.epfd);
        self.members.retain(|_, member| !member.parked);
        let waits_for_owner = self.waits_for_owner() && !self.watched;
        if let Some(epfd) = epfd.filter(|_| !waits_for_owner) {
            self.take_bells_out(epfd);
        }
        // The waiter and the boards are the parent's.
        self.bells = 0;
        let owners = self.waiter.take();
        self.boards.clear();
        self.queue.clear();
        self.stalled.clear();
        let fds: Vec<_> = self.members.keys().copied().collect();
        for fd in fds {
            self.note_shot_of(fd);
            self.note_left(fd);
        }
        if let Some(holders) = self.holders {
            holders.end_taking();
            (self.begun, self.done) = (holders.begun(), holders.done());
        }
        if let Some(waiter) = owners.filter(|_| waits_for_owner) {
            self.rouse_owner(waiter);
        }
    }

    /// Registrations of numbers that we have closed are the owner's to put back: if it sleeps in the set it gets up for that,
    /// and has a moment, for its bell could wake us instead.
    #[cold]
    fn rouse_owner(&self, waiter: &Waiter) {
        if !waiter.is_asleep() {
            return;
        }
        waiter.rouse();
        let (limit, mut backoff) = (Deadline::after(OWNERS_TIME), Backoff::default());
        while self.waits_for_owner() && !limit.passed() {
            backoff.pause();
        }
    }

    /// After a change of a converted member's registration: a child that takes the set over at this
    /// very moment may have read the old one, and left it to us.
    pub fn confirm(&mut self, fd: RawFd) {
        let ours = |member: &&Member| member.converted.is_some() && !member.parked;
        let Some(member) = self.members.get(&fd).filter(ours) else {
            return;
        };
        if self
            .holders
            .is_some_and(|holders| holders.begun() != self.begun)
        {
            let events = Member::kernel_events(member.events, member.disabled);
            let data = self.aliases.register(member.data);
            let _ = kernel::modify(member.epfd, fd, events, data);
        }
    }

    /// What was ours in the kernel is the program's again, and the connections are on the kernel.
    fn let_members_go(&mut self) {
        let gone = |member: &mut Member| {
            let registration = member.converted.take()?;
            Some((member.fd, member.epfd, registration))
        };
        let gone: Vec<_> = self.members.values_mut().filter_map(gone).collect();
        for (fd, _, registration) in &gone {
            if !registration.is_put_back() {
                self.put_back_for_child(*fd);
            }
            registration.free();
            self.take_wires_down(*fd);
            self.note_shot_of(*fd);
            self.note_left(*fd);
        }
        if let Some((_, epfd, _)) = gone.first() {
            self.take_bells_out(*epfd);
        }
        self.members.retain(|_, member| !member.parked);
        self.left.retain(|fd| self.members.contains_key(fd));
    }

    /// The child that has taken the set over could not: it has closed the number.
    fn put_back_for_child(&mut self, fd: RawFd) {
        let Some(member) = self.members.get(&fd) else {
            return;
        };
        if member.parked {
            let _ = kernel::delete(member.epfd, fd);
            return;
        }
        crate::conn::demote(member.handle, Reason::Fork);
        let events = Member::kernel_events(member.events, member.disabled);
        let data = self.aliases.register(member.data);
        let _ = kernel::modify(member.epfd, fd, events, data);
    }
}

/// In a child: the program's own registration, as it is now. The parent may be changing it.
fn put_back(member: &mut Member, registration: Registration, aliases: &mut Aliases) {
    let mut put = None;
    while let Some(now) = registration.get().filter(|now| put != Some(*now)) {
        if put.is_none() {
            crate::conn::demote(member.handle, Reason::Fork);
        }
        if member.parked {
            if kernel::delete(member.epfd, member.fd).is_ok() {
                registration.note_put_back();
            }
            return;
        }
        let (events, data, disabled) = now;
        (member.events, member.data, member.disabled) = now;
        let events = Member::kernel_events(events, disabled);
        if kernel::modify(member.epfd, member.fd, events, aliases.register(data)).is_ok() {
            registration.note_put_back();
        }
        fence(Ordering::SeqCst);
        put = Some(now);
    }
}
