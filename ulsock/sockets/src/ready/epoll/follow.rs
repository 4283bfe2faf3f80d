//! A set that several processes hold: how each follows what the others do to it.

use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, fence};

use super::member::Member;
use super::shared::{Holders, Registration};
use super::state::SetState;
use super::tag::Aliases;
use os::epoll as kernel;
use rendezvous::reason::Reason;

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
        if let Some(epfd) = epfd {
            self.take_bells_out(epfd);
        }
        // The waiter and the boards are the parent's.
        self.waiter = None;
        self.boards.clear();
        self.queue.clear();
        self.stalled.clear();
        if let Some(holders) = self.holders {
            holders.end_taking();
            (self.begun, self.done) = (holders.begun(), holders.done());
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
            registration.free();
            Some((member.fd, member.epfd))
        };
        let gone: Vec<_> = self.members.values_mut().filter_map(gone).collect();
        for (fd, _) in &gone {
            self.take_wires_down(*fd);
        }
        if let Some((_, epfd)) = gone.first() {
            self.take_bells_out(*epfd);
        }
        self.members.retain(|_, member| !member.parked);
    }
}

/// In a child: the program's own registration, as it is now. The parent may be changing it.
fn put_back(member: &Member, registration: Registration, aliases: &mut Aliases) {
    let mut put = None;
    while let Some(now) = registration.get().filter(|now| put != Some(*now)) {
        if put.is_none() {
            crate::conn::demote(member.handle, Reason::Fork);
        }
        if member.parked {
            let _ = kernel::delete(member.epfd, member.fd);
            return;
        }
        let (events, data, disabled) = now;
        let events = Member::kernel_events(events, disabled);
        let _ = kernel::modify(member.epfd, member.fd, events, aliases.register(data));
        fence(Ordering::SeqCst);
        put = Some(now);
    }
}
