//! What a set knows: its members, and who of them is to be looked at.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};

use libc::{c_short, epoll_event};
use rustix::io::Errno;

use super::Entry;
use super::closed::ClosedMember;
use super::member::{Member, Moved, Told};
use super::numbers::{NumberMap, NumberSet};
use super::shared::{Holders, Registration};
use super::tag::{self, Aliases, Meaning};
use super::turns::Turns;
use super::view::View;
use crate::conn::{Conn, Handle};
use crate::state::record::flag;
use os::epoll as kernel;
use rendezvous::reason::Reason;
use shm::waiter::Waiter;

/// The program's own among the kernel's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelEvents {
    pub all: usize,
    /// Those that came before the first of ours.
    pub before: usize,
}

#[derive(Default)]
pub struct SetState {
    pub owner: u32,
    pub holders: Option<&'static Holders>,
    /// Of the takings by other processes that were begun and done, those that we know of.
    pub(super) begun: u32,
    pub(super) done: u32,
    pub members: NumberMap<RawFd, Member>,
    /// Members to look at, each with its ticket.
    pub(super) queue: VecDeque<(RawFd, u64)>,
    /// Tickets given out.
    tickets: u64,
    pub(super) turns: Turns,
    /// How many members have become ours.
    pub(super) conversions: u64,
    pub waiter: Option<&'static Waiter>,
    pub(super) bells: usize,
    pub(super) boards: Vec<View>,
    /// Members that wait for space in a ring that could still grow: only time tells that the consumer
    /// has stalled.
    pub stalled: NumberSet<RawFd>,
    /// Members that the kernel watches while bytes of theirs are left in a ring.
    pub(super) left: VecDeque<RawFd>,
    /// Those that have no number here any more.
    pub(super) closed: VecDeque<ClosedMember>,
    /// Its members stay on the kernel.
    pub kernel_only: bool,
    /// Somebody waits for the set itself.
    pub watched: bool,
    /// Sets that are members of this one.
    pub inner: Vec<u32>,
    pub aliases: Aliases,
    /// One-shot members that the kernel still watches, by their data: it does not say when their shot
    /// is fired.
    shots: NumberMap<u64, RawFd>,
    /// Data of several one-shot members: whose shot was fired is not known.
    twins: NumberSet<u64>,
}

impl SetState {
    pub fn new() -> SetState {
        let holders = Holders::claim(os::pid::get());
        SetState {
            owner: os::pid::get(),
            begun: holders.map_or(0, Holders::begun),
            done: holders.map_or(0, Holders::done),
            holders,
            ..SetState::default()
        }
    }

    pub fn converted(&self) -> Vec<Handle> {
        let converted = self.members.values().filter(|m| m.converted.is_some());
        converted.map(|member| member.handle).collect()
    }

    pub fn give_up_all(&mut self, reason: Reason) {
        let fds: Vec<_> = self.members.keys().copied().collect();
        fds.into_iter().for_each(|fd| self.give_up(fd, reason));
    }

    /// Back to the program's own registration, and the connection back to the kernel.
    pub fn give_up(&mut self, fd: RawFd, reason: Reason) {
        let handle = match self.members.get(&fd) {
            Some(member) if member.converted.is_some() => member.handle,
            _ => return,
        };
        crate::conn::demote(handle, reason);
        self.unconvert(fd);
    }

    /// Back to the program's own registration.
    pub fn restore(&mut self, fd: RawFd) {
        let converted = |member: &Member| member.converted.is_some();
        if self.members.get(&fd).is_some_and(converted) {
            self.unconvert(fd);
        }
    }

    /// The kernel watches the member from here on.
    fn unconvert(&mut self, fd: RawFd) {
        if self.is_parked(fd) {
            return self.evict(fd);
        }
        self.release(fd);
        if let Some(member) = self.members.get(&fd) {
            let events = Member::kernel_events(member.events, member.disabled);
            let data = self.aliases.register(member.data);
            let _ = kernel::modify(member.epfd, fd, events, data);
            self.note_shot(fd, events);
            self.note_left(fd);
        }
    }

    /// A connection that is on the kernel for good is the kernel's to watch, once nothing of it is
    /// left in a ring. Only when it has nothing to tell: the change would tell it again.
    pub fn settle(&mut self, fd: RawFd) {
        let idle = |member: &Member, conn: &Conn<'_>| {
            // What an edge-triggered one was told and still holds would be told again, too.
            conn.is_settled_on_kernel() && (!member.is_edge() || conn.revents(member.wanted()) == 0)
        };
        let settled = |member: &Member| {
            member.converted.is_some()
                && Conn::enter(member.handle).is_some_and(|conn| idle(member, &conn))
        };
        if self.members.get(&fd).is_some_and(settled) {
            self.unconvert(fd);
        }
    }

    /// Registers what the program asked for; a managed connection's in our own way at once, so that
    /// no event of the kernel's slips through.
    pub fn add(
        &mut self,
        handle: Handle,
        epfd: RawFd,
        event: epoll_event,
        awake: bool,
    ) -> Result<(), Errno> {
        let (fd, events, data) = (handle.fd, event.events, event.u64);
        let mut stale = self.members.contains_key(&fd);
        if stale && self.unpark(handle, epfd, event) {
            return Ok(());
        }
        // A parked one that could not come back has gone.
        stale = stale && self.members.contains_key(&fd);
        if stale {
            // Known already, unless it was closed behind our back: the kernel knows.
            kernel::add(epfd, fd, events, self.aliases.register(data))?;
            self.remove(fd);
        }
        let member = Member::new(handle, epfd, events, data);
        if stale || handle.is_managed() {
            return self.insert(member, stale, awake);
        }
        // The kernel's alone, as those of short connections: what comes of it is told by `convert`.
        kernel::add(epfd, fd, events, self.aliases.register(data))?;
        self.members.insert(fd, member);
        self.note_shot(fd, events);
        Ok(())
    }

    /// `stale`: the kernel has its registration already.
    fn insert(&mut self, member: Member, stale: bool, awake: bool) -> Result<(), Errno> {
        let (fd, epfd) = (member.fd, member.epfd);
        let events = Member::kernel_events(member.events, member.disabled);
        let own = self.aliases.register(member.data);
        self.members.insert(fd, member);
        let ours = self.prepare(fd);
        let done = match (ours, stale) {
            (Some(asked), true) => kernel::modify(epfd, fd, asked, tag::member(fd)),
            (Some(asked), false) => kernel::add(epfd, fd, asked, tag::member(fd)),
            (None, true) => Ok(()),
            (None, false) => kernel::add(epfd, fd, events, own),
        };
        match done {
            Ok(()) if ours.is_some() => self.begin(fd, awake),
            Ok(()) => self.note_shot(fd, events),
            Err(_) => self.remove(fd),
        }
        done
    }

    /// The member's connection is to be watched at another of its numbers, with all that the program
    /// has been told. The kernel would go on telling about a closed number, but we could not change
    /// its registration any more.
    pub fn move_to(&mut self, fd: RawFd, to: Handle, moved: Option<Moved>, awake: bool) {
        let Some(member) = self.members.get_mut(&fd) else {
            return;
        };
        let told = std::mem::take(&mut member.told);
        let new = Member {
            moved,
            disabled: member.disabled,
            told,
            ..Member::new(to, member.epfd, member.events, member.data)
        };
        let _ = kernel::delete(member.epfd, fd);
        self.remove(fd);
        let _ = self.insert(new, false, awake);
    }

    /// Members of this connection that are watched at numbers of our own.
    pub fn moved(&self, number: u32) -> Vec<RawFd> {
        let moved = |member: &&Member| member.moved.is_some() && member.handle.number == number;
        let members = self.members.values().filter(moved);
        members.map(|member| member.fd).collect()
    }

    /// Takes a managed member over from the kernel. `awake`: nobody sleeps in the kernel's wait.
    pub fn convert(&mut self, fd: RawFd, awake: bool) {
        let Some(epfd) = self.members.get(&fd).map(|member| member.epfd) else {
            return;
        };
        if let Some(asked) = self.prepare(fd) {
            if kernel::modify(epfd, fd, asked, tag::member(fd)).is_ok() {
                // If it was ours before, the kernel has told of it since, or was about to: whatever holds is news.
                if let Some(member) = self.members.get_mut(&fd) {
                    member.told = Told::default();
                }
                self.begin(fd, awake);
            } else {
                self.release(fd);
            }
        }
    }

    /// Everything that a converted member needs, but for its kernel registration, which it says. If it cannot be had
    /// the connection goes to the kernel for good.
    fn prepare(&mut self, fd: RawFd) -> Option<u32> {
        // What a child has put back before is let go of now: later it would be taken for one of those.
        self.follow_processes();
        let member = self.members.get(&fd);
        let member = member.filter(|member| member.converted.is_none())?;
        let (handle, epfd) = (member.handle, member.epfd);
        let (events, data, disabled) = (member.events, member.data, member.disabled);
        let conn = Conn::enter(handle).filter(|conn| !conn.is_settled_on_kernel())?;
        // Which sets an exclusive member wakes is for the kernel to choose.
        let possible = !self.kernel_only
            && !member.is_exclusive()
            && !self.is_ambiguous(member)
            && self.is_alone()
            && conn.link.pair.is_mine();
        let registration = possible
            .then(|| Registration::claim(events, data, disabled))
            .flatten();
        if let Some(registration) = registration {
            if self.wire(fd, epfd, &conn) {
                // Nobody else holds the set: takings that were begun have ended, one way or another.
                self.begun = self.holders.map_or(0, Holders::begun);
                let member = self.members.get_mut(&fd)?;
                member.converted = Some(registration);
                member.asked = member.to_ask(self.watched, &conn);
                return Some(member.asked);
            }
            registration.free();
        }
        conn.wait_by_kernel_for_good();
        drop(conn);
        self.note_left(fd);
        None
    }

    /// The kernel has our registration: wires up, and a first look.
    fn begin(&mut self, fd: RawFd, awake: bool) {
        self.conversions += 1;
        if let Some(member) = self.members.get_mut(&fd) {
            member.echoes = true;
            if self.shots.get(&member.data) == Some(&fd) {
                self.shots.remove(&member.data);
            }
        }
        if let Some(waiter) = self.waiter.filter(|_| !awake || self.watched) {
            crate::runtime::sleep_state::lie_down(waiter);
        }
        // What the kernel knows belongs to the first look: as an event of its own it would be news.
        let member = self.members.get(&fd);
        if let Some(conn) = member.and_then(|member| Conn::enter(member.handle)) {
            conn.record.set(flag::LOOK);
        }
        self.arm(fd);
        self.enqueue(fd);
    }

    /// A member that the kernel watches, if it is a one-shot one.
    #[inline]
    fn note_shot(&mut self, fd: RawFd, events: u32) {
        if events & libc::EPOLLONESHOT as u32 == 0 {
            return;
        }
        if let Some(member) = self.members.get(&fd) {
            let other = self.shots.insert(member.data, fd);
            if other.is_some_and(|other| other != fd) {
                self.twins.insert(member.data);
            }
        }
    }

    /// The same after a change of hands.
    pub(super) fn note_shot_of(&mut self, fd: RawFd) {
        let armed = self.members.get(&fd).filter(|member| !member.disabled);
        if let Some(events) = armed.map(|member| member.events) {
            self.note_shot(fd, events);
        }
    }

    pub(super) fn has_shots(&self) -> bool {
        !self.shots.is_empty()
    }

    fn is_ambiguous(&self, member: &Member) -> bool {
        member.is_oneshot() && self.twins.contains(&member.data)
    }

    /// The program changes a member that the kernel watches.
    pub fn changed(&mut self, fd: RawFd, events: u32, data: u64) {
        if let Some(member) = self.members.get_mut(&fd) {
            if self.shots.get(&member.data) == Some(&fd) {
                self.shots.remove(&member.data);
            }
            member.change(events, data);
            self.note_shot(fd, events);
        }
    }

    pub fn remove_all(&mut self) {
        let fds: Vec<_> = self.members.keys().copied().collect();
        fds.into_iter().for_each(|fd| self.remove(fd));
    }

    pub fn remove(&mut self, fd: RawFd) {
        self.release(fd);
        if let Some(member) = self.members.remove(&fd)
            && self.shots.get(&member.data) == Some(&fd)
        {
            self.shots.remove(&member.data);
        }
    }

    /// Removes a member, and says how it would be registered with the kernel.
    pub fn take_out(&mut self, fd: RawFd) -> Option<Entry> {
        self.evict(fd);
        let member = self.members.get(&fd)?;
        let entry = Entry {
            epfd: member.epfd,
            events: Member::kernel_events(member.events, member.disabled),
            data: self.aliases.register(member.data),
        };
        self.remove(fd);
        let _ = kernel::delete(entry.epfd, fd);
        Some(entry)
    }

    pub fn enqueue(&mut self, fd: RawFd) {
        if let Some(member) = self
            .members
            .get_mut(&fd)
            .filter(|member| member.ticket == 0)
        {
            self.tickets += 1;
            member.ticket = self.tickets;
            self.queue.push_back((fd, self.tickets));
        }
    }

    /// The ticket given out last.
    pub fn newest(&self) -> u64 {
        self.tickets
    }

    /// The next member to look at that was queued not after `newest`; one that has gone, or come
    /// back since, is passed over. So whoever is told and queued again has its turn another time.
    pub fn next(&mut self, newest: u64) -> Option<RawFd> {
        while let Some(&(fd, ticket)) = self.queue.front().filter(|(_, t)| *t <= newest) {
            self.queue.pop_front();
            if let Some(member) = self
                .members
                .get_mut(&fd)
                .filter(|member| member.ticket == ticket)
            {
                member.ticket = 0;
                return Some(fd);
            }
        }
        None
    }

    /// Whoever was queued after the first `queued` came before them, and has its turn with those up to `newest`.
    pub(super) fn newest_first(&mut self, queued: usize, newest: u64) {
        for (fd, ticket) in self.queue.iter_mut().skip(queued) {
            let member = self.members.get_mut(fd);
            if let Some(member) = member.filter(|member| member.ticket == *ticket) {
                (member.ticket, *ticket) = (newest, newest);
            }
        }
        let newer = self.queue.len().saturating_sub(queued);
        self.queue.rotate_right(newer);
    }

    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Has it ever had a member that is ours? Entries of such may be in its queue still.
    pub fn has_managed(&self) -> bool {
        self.waiter.is_some()
    }

    /// Has it members that are ours now? Each of them is on a board, and the last one takes its board along.
    pub fn has_board(&self) -> bool {
        !self.boards.is_empty()
    }

    /// A kernel event: for the program, with its own data; or a bell, or a member whose kernel socket
    /// has something to say.
    pub fn take_event(&mut self, event: &epoll_event) -> Option<epoll_event> {
        let (events, data) = (event.events, event.u64);
        match self.aliases.meaning(data) {
            Meaning::Program(data) => {
                let events = self.without_old(events, data);
                if events == 0 || self.was_fired_closed(data) {
                    return None;
                }
                let events = self.with_left(events, data);
                let events = self.with_closed(events, data);
                self.note_fired(data);
                Some(epoll_event { events, u64: data })
            }
            Meaning::Bell => {
                self.answer_bells();
                // Those behind it in the kernel's list came later.
                self.collect();
                None
            }
            Meaning::Member(fd) => {
                let Some(member) = self.members.get_mut(&fd) else {
                    return self.event_of_closed(fd, events);
                };
                if let Some(conn) = Conn::enter(member.handle) {
                    member.hear(events, &conn);
                    conn.note_kernel_events((events & !(libc::EPOLLOUT as u32)) as c_short);
                }
                self.enqueue(fd);
                None
            }
        }
    }

    /// Of the kernel's events, keeps the program's own and takes note of ours.
    pub(super) fn keep_theirs(&mut self, events: &mut [epoll_event]) -> KernelEvents {
        let mut kept = KernelEvents {
            all: 0,
            before: events.len(),
        };
        for index in 0..events.len() {
            match self.take_event(&{ events[index] }) {
                Some(event) => {
                    events[kept.all] = event;
                    kept.all += 1;
                }
                None => kept.before = kept.before.min(kept.all),
            }
        }
        kept.before = kept.before.min(kept.all);
        kept
    }

    #[inline]
    fn note_fired(&mut self, data: u64) {
        if self.shots.is_empty() {
            return;
        }
        let fd = self.shots.get(&data);
        if let Some(member) = fd.and_then(|fd| self.members.get_mut(fd)) {
            member.disable();
        }
    }

    pub fn take_bells_out(&mut self, epfd: RawFd) {
        let bells = self.waiter.iter().flat_map(|waiter| waiter.bells());
        for bell in bells.take(self.bells) {
            let _ = kernel::delete(epfd, bell.wait_fd().as_raw_fd());
        }
        self.bells = 0;
    }
}
