//! Waits in a set whose members are all the kernel's: straight to the kernel, without a lock and
//! without blocking signals. So short connections wait, which never become accelerated.
//!
//! Whether a set is plain is said anew whenever its lock is given back. Who sleeps in a plain set is
//! a dozer. He counts himself and then looks whether the set is still plain; who ends that says so
//! and then looks for dozers. So one of the two sees the other.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{epoll_event, sigset_t};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::kernel::raw_wait;
use super::set::Set;
use super::state::State;
use super::tag::Aliases;
use crate::cancel;
use crate::process;
use crate::sys::door::Door;
use crate::thread::{self, Thread};

#[derive(Default)]
pub struct Plain {
    /// The process in which nothing of the set is ours; zero: none.
    process: AtomicU32,
    dozers: AtomicU32,
}

impl Plain {
    /// The lock is about to be given back.
    #[inline]
    pub fn update(&self, state: &State) {
        if !state.is_plain() {
            self.cease(state);
        } else if !self.holds() {
            self.process.store(process::pid(), Ordering::SeqCst);
        }
    }

    /// What the kernel tells from now on, we must know of. Under the lock.
    #[inline]
    pub fn cease(&self, state: &State) {
        if self.process.load(Ordering::Relaxed) != 0 {
            self.process.store(0, Ordering::SeqCst);
            if self.has_dozers() {
                state.rouse();
            }
        }
    }

    #[inline]
    pub fn has_dozers(&self) -> bool {
        self.dozers.load(Ordering::SeqCst) > 0
    }

    #[inline]
    fn holds(&self) -> bool {
        self.process.load(Ordering::SeqCst) == process::pid()
    }

    #[inline]
    fn begin(&self) {
        thread::add(&self.dozers, 1);
    }

    #[inline]
    pub fn end(&self) {
        thread::add(&self.dozers, u32::MAX);
    }
}

impl Set {
    /// Is nothing of it ours?
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.plain.holds()
    }

    /// As the kernel's wait. `None`: the set has ceased to be plain, and there is nothing to tell yet.
    pub fn wait_plainly(
        &'static self,
        me: &'static Thread,
        epfd: RawFd,
        events: &mut [epoll_event],
        left: Option<Timespec>,
        mask: *const sigset_t,
    ) -> Option<Result<usize, Errno>> {
        let result = self.doze(me, || {
            raw_wait(Door::always_open(), epfd, events, left, mask)
        })?;
        // Who makes a member ours is about to say so, but the kernel may have been faster.
        let ours = |event: &epoll_event| Aliases::needed(event.u64);
        if self.plain.holds() && !events.iter().take(result.unwrap_or(0)).any(ours) {
            return Some(result);
        }
        self.after_doze(events, result)
    }

    /// Sleeps so that who makes a member ours can wake us.
    fn doze<T>(&'static self, me: &'static Thread, wait: impl FnOnce() -> T) -> Option<T> {
        let bed = me.bed();
        // In a handler that has interrupted a dozer, or after one has jumped out of it.
        if bed.is_dozing() {
            return None;
        }
        self.plain.begin();
        bed.doze(self);
        let result = self.plain.holds().then(|| {
            me.asleep(true);
            let result = cancel::asleep(wait);
            me.asleep(false);
            result
        });
        bed.end_doze();
        result
    }

    /// What the kernel said may be about members of ours.
    #[cold]
    fn after_doze(
        &self,
        events: &mut [epoll_event],
        result: Result<usize, Errno>,
    ) -> Option<Result<usize, Errno>> {
        self.rest_if_all_are_up();
        match result {
            Ok(n) => Some(Ok(self.keep_theirs(events, n))).filter(|kept| *kept != Ok(0)),
            error => Some(error),
        }
    }
}

impl State {
    /// Nothing that the kernel tells needs a second look, and it tells everything.
    fn is_plain(&self) -> bool {
        self.owner == process::pid()
            && self.waiter.is_none()
            && !self.watched
            && self.inner.is_empty()
            && self.left.is_empty()
            && self.aliases.is_empty()
            && !self.has_shots()
    }

    /// Dozers hear of our members from now on, and one of them looks at once.
    fn rouse(&self) {
        if let Some(waiter) = self.waiter {
            waiter.lie_down();
            self.ring_myself();
        }
    }
}
