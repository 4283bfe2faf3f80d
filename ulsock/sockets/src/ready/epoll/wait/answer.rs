//! What a wait answers, in the order in which it came: what rings have, and what the kernel has.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use libc::epoll_event;

use super::{EpollWait, Slept, ZERO};
use crate::ready::epoll::asked;
use crate::ready::epoll::look;
use crate::ready::epoll::set::ArmResult;
use crate::ready::epoll::state::SetState;
use crate::ready::epoll::turns::Turn;
use os::door::Door;
use os::epoll::{self, raw_wait_into};

/// What a look has to do with the kernel's members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    InTurn,
    HasTold,
}

impl EpollWait {
    /// How many there are, and whether a question has been answered since: then there may be more.
    #[inline]
    pub(super) fn look(&self, events: &mut [MaybeUninit<epoll_event>]) -> (usize, bool) {
        let Some(mut held) = self.set.hold() else {
            return (0, false);
        };
        held.state().collect();
        if held.state().is_kernels_turn_through_sets() {
            drop(held);
            self.set.refresh();
            match self.set.hold() {
                Some(again) => held = again,
                None => return (0, false),
            }
        }
        let told = self.gather(held.state(), events, Kernel::InTurn);
        let asked = held.take_asked();
        drop(held);
        asked::answer(&asked);
        (told, !asked.is_empty())
    }

    /// What there is to tell, in the order in which it came. The set is held all the time: a member that becomes ours between
    /// the kernel's answer and ours would be told twice.
    fn gather(
        &self,
        state: &mut SetState,
        events: &mut [MaybeUninit<epoll_event>],
        kernel: Kernel,
    ) -> usize {
        if state.has_left() {
            return self.gather_apart(state, events, kernel);
        }
        if !state.has_managed() {
            return 0;
        }
        state.collect();
        let turn = match kernel {
            Kernel::InTurn if state.queued() > 0 => state.turns.next(),
            _ => Turn::Rings,
        };
        let newest = state.newest();
        let mut told = match turn {
            Turn::KernelBefore(ticket) => self.ask_kernel_before(state, events, ticket),
            Turn::Rings | Turn::KernelToo => 0,
        };
        let rings = look::gather(state, &mut events[told..], newest, &self.set.spin);
        told += rings;
        if turn == Turn::KernelToo && rings > 0 {
            match told < events.len() {
                true => told += self.ask_kernel(state, &mut events[told..]),
                false => state.turns.no_room(),
            }
        }
        // Who has no place in this answer, or is told at every wait, is for another thread too.
        if told > 0 && state.queued() > 0 && self.set.sleepers.load(Ordering::Relaxed) > 0 {
            state.ring_myself();
        }
        told
    }

    /// The kernel and we both know something of the same member: never both in one answer.
    #[cold]
    fn gather_apart(
        &self,
        state: &mut SetState,
        events: &mut [MaybeUninit<epoll_event>],
        kernel: Kernel,
    ) -> usize {
        if kernel == Kernel::HasTold {
            return 0;
        }
        let closed = state.has_closed_news();
        let is_kernels = state.turns.next_apart();
        if is_kernels {
            let told = self.ask_kernel_first(state, events);
            if told > 0 {
                return told;
            }
        }
        let mut told = state.tell_left(events);
        if state.has_managed() {
            state.collect();
            let newest = state.newest();
            told += look::gather(state, &mut events[told..], newest, &self.set.spin);
        }
        match told {
            0 if closed && !is_kernels => self.ask_kernel_first(state, events),
            _ => told,
        }
    }

    /// What the kernel has, and then those without a number that it has said nothing about.
    fn ask_kernel_first(
        &self,
        state: &mut SetState,
        events: &mut [MaybeUninit<epoll_event>],
    ) -> usize {
        let told = self.ask_kernel(state, events);
        told + state.tell_closed(&mut events[told..])
    }

    /// What came before the member with this ticket: by rings, and then by the kernel.
    fn ask_kernel_before(
        &self,
        state: &mut SetState,
        events: &mut [MaybeUninit<epoll_event>],
        ticket: u64,
    ) -> usize {
        let newest = state.newest();
        let before = ticket.saturating_sub(1);
        let mut told = look::gather(state, events, before, &self.set.spin);
        match told < events.len() {
            true => {
                let queued = state.queued();
                told += self.ask_kernel(state, &mut events[told..]);
                state.newest_first(queued, newest);
            }
            false => state.turns.no_room(),
        }
        told
    }

    /// The members that the kernel watches.
    fn ask_kernel(&self, state: &mut SetState, events: &mut [MaybeUninit<epoll_event>]) -> usize {
        let door = Door::always_open();
        let found = raw_wait_into(door, self.epfd, events, Some(ZERO), std::ptr::null());
        let told = found.map_or(0, |n| {
            // SAFETY: the kernel has just written so many.
            let theirs = unsafe { epoll::told(events, n) };
            state.keep_theirs(theirs).all
        });
        state.turns.asked(told > 0);
        told
    }

    /// The kernel has told these `n` in a sleep. What rings have comes where the kernel has told that they rang.
    ///
    /// # Safety
    /// It has written them into `events`, from the first one on.
    pub(super) unsafe fn merge(
        &self,
        events: &mut [MaybeUninit<epoll_event>],
        n: usize,
        lain: &ArmResult,
    ) -> Slept {
        let Some(mut held) = self.set.hold() else {
            return Slept::Told(n);
        };
        let state = held.state();
        // SAFETY: the kernel has written so many, as the caller says.
        let kept = state.keep_theirs(unsafe { epoll::told(events, n) });
        state.turns.asked(kept.all > 0);
        if kept.all == 0 {
            return Slept::Look;
        }
        // One that has become ours meanwhile would be told twice.
        if kept.all == events.len() || state.conversions != lain.conversions {
            return Slept::Told(kept.all);
        }
        let rings = self.gather(state, &mut events[kept.all..], Kernel::HasTold);
        let told = kept.all + rings;
        events[kept.before..told].rotate_left(kept.all - kept.before);
        let asked = held.take_asked();
        drop(held);
        asked::answer(&asked);
        Slept::Told(told)
    }
}
