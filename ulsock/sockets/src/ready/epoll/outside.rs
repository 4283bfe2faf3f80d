//! A set that is itself waited for: nested in another, or in poll or select.
//!
//! The kernel sees through to the members that it watches. For ours the set's bell stands: it is in
//! the kernel's set, level-triggered now, and rung as long as one of our members has something to
//! tell. Peers always ring it; whoever is about to ask the kernel about the set refreshes it first.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;

use super::asked;
use super::look::{self, Finding};
use super::set::Set;
use super::state::SetState;
use super::tag;
use os::epoll as kernel;
use os::poll::poll_now;

/// The kernel nests sets no deeper.
const DEEPEST: usize = 5;

impl Set {
    /// From now on the set can be waited for. What stood in the kernel's list is looked at anew.
    pub fn watch(&self, epfd: RawFd) {
        if self.watched.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut held) = self.hold() else { return };
        let state = held.state();
        state.evict_all();
        state.watched = true;
        self.watched.store(true, Ordering::Relaxed);
        if let Some(waiter) = state.waiter {
            crate::runtime::sleep_state::lie_down(waiter);
            for bell in waiter.bells().take(state.bells) {
                let bell = bell.wait_fd().as_raw_fd();
                let _ = kernel::modify(epfd, bell, state.bell_events(), tag::bell());
            }
        }
        let fds: Vec<_> = state.members.keys().copied().collect();
        for fd in fds {
            state.arm(fd);
            state.enqueue(fd);
        }
    }

    /// Makes the bell say what holds now, here and in the sets within this one.
    pub fn refresh(&self) {
        self.refresh_down(DEEPEST);
    }

    fn refresh_down(&self, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        let inner = self.hold().map(|mut held| held.state().inner.clone());
        for set in inner.into_iter().flatten().filter_map(super::get) {
            set.refresh_down(depth);
        }
        if !self.watched.load(Ordering::Relaxed) {
            return;
        }
        if let Some(mut held) = self.hold() {
            held.state().show_outside();
            let asked = held.take_asked();
            drop(held);
            asked::answer(&asked);
        }
    }
}

impl SetState {
    /// The kernel is about to be asked about sets that have members of ours, or about this one by somebody else.
    pub(super) fn is_kernels_turn_through_sets(&self) -> bool {
        (self.watched || !self.inner.is_empty()) && self.turns.is_kernels()
    }

    fn show_outside(&mut self) {
        let Some(waiter) = self.waiter else { return };
        self.collect();
        if self.anything_to_tell() {
            if !self.is_rung() {
                self.ring_myself();
            }
            return;
        }
        waiter.silence();
        // What came before the bell was silenced has rung in vain.
        if self.posted() {
            self.ring_myself();
        }
    }

    /// Looks at everyone in the queue; who has something to tell stays there.
    fn anything_to_tell(&mut self) -> bool {
        let mut any = false;
        let newest = self.newest();
        while let Some(fd) = self.next(newest) {
            if matches!(look::examine_armed(self, fd), Finding::News(_)) {
                any = true;
                self.enqueue(fd);
            }
        }
        any
    }

    fn is_rung(&self) -> bool {
        let bells = self.waiter.iter().flat_map(|waiter| waiter.bells());
        let mut fds: Vec<_> = bells
            .map(|bell| libc::pollfd {
                fd: bell.wait_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        poll_now(&mut fds).is_ok_and(|n| n > 0)
    }
}
