//! Waits in a set whose members are all the kernel's: straight to the kernel, without a lock and
//! without blocking signals. So short connections wait, which never become accelerated.
//!
//! Whether a set is plain is said anew whenever its lock is given back. Who sleeps in a plain set is
//! a dozer. He counts himself and then looks whether the set is still plain; who ends that says so
//! and then looks for dozers. So one of the two sees the other.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, epoll_event, sigset_t};

use super::room::room;
use super::set::Set;
use super::state::SetState;
use super::tag::Aliases;
use super::wait::{EpollWait, WaitLimit, wait_for_ours};
use crate::runtime::thread::{self, Thread};
use crate::state::verdict::Verdict;

#[derive(Default)]
pub struct Plain {
    /// The process in which nothing of the set is ours; zero: none.
    process: AtomicU32,
    dozers: AtomicU32,
}

impl Plain {
    /// The lock is about to be given back.
    #[inline]
    pub fn update(&self, state: &SetState) {
        if !state.is_plain() {
            self.cease(state);
        } else if !self.holds() {
            self.process.store(os::pid::get(), Ordering::SeqCst);
        }
    }

    /// What the kernel tells from now on, we must know of. Under the lock.
    #[inline]
    pub fn cease(&self, state: &SetState) {
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
        self.process.load(Ordering::SeqCst) == os::pid::get()
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

    /// Before the kernel's wait; who makes a member ours can wake us there. `None`: the set has ceased to be plain.
    #[inline]
    pub fn doze(&'static self, me: &'static Thread, limit: WaitLimit) -> Option<KernelWait> {
        let bed = me.bed();
        // In a handler that has interrupted a dozer, or after one has jumped out of it.
        if bed.is_dozing() {
            return None;
        }
        self.plain.begin();
        bed.doze(self);
        if !self.plain.holds() {
            bed.end_doze();
            return None;
        }
        me.asleep(true);
        Some(KernelWait {
            set: self,
            me,
            limit,
        })
    }
}

/// A wait of the kernel's, which is to end with [`KernelWait::end`]. A thread that is cancelled in it, or a handler that jumps
/// out of it, leaves it in the thread's bed.
#[must_use]
pub struct KernelWait {
    pub(super) set: &'static Set,
    pub(super) me: &'static Thread,
    pub(super) limit: WaitLimit,
}

impl KernelWait {
    /// The kernel's wait has returned `n`. `None`: so does ours. The caller's `errno` is left alone.
    ///
    /// # Safety
    /// The arguments of the wait.
    #[inline]
    pub unsafe fn end(
        self,
        n: c_int,
        epfd: RawFd,
        events: *mut epoll_event,
        max: c_int,
        mask: *const sigset_t,
    ) -> Option<Verdict> {
        self.me.asleep(false);
        self.me.bed().end_doze();
        let told = match usize::try_from(n) {
            // SAFETY: the kernel has written so many.
            Ok(n @ 1..) => unsafe { std::slice::from_raw_parts(events, n) },
            _ => &[],
        };
        // Who makes a member ours is about to say so, but the kernel may have been faster.
        let ours = |event: &epoll_event| Aliases::needed(event.u64);
        if self.set.plain.holds() && !told.iter().any(ours) {
            return None;
        }
        // SAFETY: the kernel has not refused them.
        unsafe { self.go_on(n, epfd, events, max, mask) }
    }

    /// What the kernel said may be about members of ours.
    ///
    /// # Safety
    /// As for `end`.
    #[cold]
    unsafe fn go_on(
        self,
        n: c_int,
        epfd: RawFd,
        events: *mut epoll_event,
        max: c_int,
        mask: *const sigset_t,
    ) -> Option<Verdict> {
        self.set.rest_if_all_are_up();
        let n = usize::try_from(n).ok()?;
        // The kernel has looked at the room for those that it told of, and at no more.
        let room = room(events, max as usize).max(n);
        if room == 0 {
            return None;
        }
        // SAFETY: the program says that there is room, or the kernel has found it; nothing says that it is initialised.
        let events = unsafe { std::slice::from_raw_parts_mut(events.cast(), room) };
        // SAFETY: the kernel has written so many.
        let theirs = unsafe { os::epoll::told(events, n) };
        Some(match self.set.keep_theirs(theirs) {
            0 => wait_for_ours(
                EpollWait::new(self.set, epfd, self.me, self.limit, mask),
                events,
            ),
            kept => Verdict::Done(kept as isize),
        })
    }
}

impl SetState {
    /// Nothing that the kernel tells needs a second look, and it tells everything.
    fn is_plain(&self) -> bool {
        self.owner == os::pid::get()
            && self.waiter.is_none()
            && !self.watched
            && self.inner.is_empty()
            && !self.has_left()
            && self.aliases.is_empty()
            && !self.has_shots()
    }

    /// Dozers hear of our members from now on, and one of them looks at once.
    fn rouse(&self) {
        if let Some(waiter) = self.waiter {
            crate::runtime::sleep_state::lie_down(waiter);
            self.ring_myself();
        }
    }
}
