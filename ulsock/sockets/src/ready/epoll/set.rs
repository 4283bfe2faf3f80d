//! One epoll set: its lock, and what happens to it as a whole.

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libc::epoll_event;
use netstack::ring::SideLock;

use super::Entry;
use super::asked::PutOff;
use super::plain::Plain;
use super::state::SetState;
use crate::conn::handover::{Rest, hand_over};
use crate::runtime::chaos;
use crate::runtime::thread::{self, Critical, Thread};
use os::backoff::Backoff;
use os::spin::History;
use rendezvous::reason::Reason;
use shm::waiter;

pub struct Set {
    pub(super) lock: SideLock,
    state: UnsafeCell<SetState>,
    /// Numbers of this process that name the set; 0: free.
    pub numbers: AtomicU32,
    /// Which use of it this is.
    pub uses: AtomicU32,
    /// Threads of this process asleep in the kernel's wait.
    pub sleepers: AtomicU32,
    pub spin: History,
    /// Somebody waits for the set itself; see [`super::outside`].
    pub watched: AtomicBool,
    /// Before a fork under way: children that have said themselves that they hold it.
    arrived: AtomicU32,
    pub(super) plain: Plain,
    pub(super) asked: PutOff,
    /// A connection was added whose waits on kernel TCP may be awake.
    pub(super) awake: AtomicBool,
    /// Waits in a row that the kernel has answered.
    pub(super) by_kernel: AtomicU32,
}

// SAFETY: `state` and `asked` are touched only under `lock`.
unsafe impl Sync for Set {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Set {}

/// How a fork has ended, with the child's number.
#[derive(Clone, Copy)]
pub enum Forked {
    Parent(u32),
    Child(u32),
    Failed,
}

/// What a thread knows when it has lain down in a set.
#[derive(Default)]
pub struct ArmResult {
    /// Peers ring the set.
    pub ringing: bool,
    /// Somebody waits for space, and only time tells that there will be none.
    pub stalled: bool,
    /// How many members have become ours so far.
    pub conversions: u64,
}

/// The set's lock, within a critical section.
pub struct SetGuard<'a> {
    set: &'a Set,
    _critical: Critical,
}

/// The set's lock, within a critical section; what the set knows stays as it is.
pub struct LightSetGuard<'a> {
    set: &'a Set,
    locked: bool,
    _critical: Critical,
}

impl Drop for LightSetGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.locked {
            self.set.lock.unlock();
        }
    }
}

impl SetGuard<'_> {
    pub fn state(&mut self) -> &mut SetState {
        // SAFETY: the lock is held, and this guard is the only way to the state.
        unsafe { &mut *self.set.state.get() }
    }

    pub(super) fn set(&self) -> &Set {
        self.set
    }
}

impl Drop for SetGuard<'_> {
    fn drop(&mut self) {
        self.set.plain.update(self.state());
        self.set.lock.unlock();
    }
}

impl Set {
    pub fn new() -> Set {
        Set {
            lock: SideLock::new(),
            state: UnsafeCell::new(SetState::new()),
            numbers: AtomicU32::new(1),
            uses: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            spin: History::default(),
            watched: AtomicBool::new(false),
            arrived: AtomicU32::new(0),
            plain: Plain::default(),
            asked: PutOff::default(),
            awake: AtomicBool::new(false),
            by_kernel: AtomicU32::new(0),
        }
    }

    /// Takes a free set.
    pub fn reuse(&self) -> bool {
        let free = self
            .numbers
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if let Some(mut held) = free.then(|| self.hold_raw()).flatten() {
            *held.state() = SetState::new();
            self.watched.store(false, Ordering::Relaxed);
            self.awake.store(false, Ordering::Relaxed);
        }
        free
    }

    #[cold]
    fn is_second(&self, me: &Thread) -> bool {
        super::in_use().any(|set| set.is_held_by(me) && !std::ptr::eq(set, self))
    }

    /// Whoever it belongs to.
    pub(super) fn hold_raw(&self) -> Option<SetGuard<'_>> {
        let critical = Critical::enter()?;
        // Two threads, each with a set that the other wants, would wait for ever; tests find who could be one of them.
        assert!(
            !chaos::is_on() || !self.is_second(critical.0),
            "a thread that holds a set asks for another"
        );
        let mut backoff = Backoff::default();
        while let Err(owner) = self.lock.try_lock(critical.0.id()) {
            if owner == critical.0.id() {
                return None;
            }
            backoff.pause();
        }
        Some(SetGuard {
            set: self,
            _critical: critical,
        })
    }

    /// For what changes nothing that the set knows. `None`: the long way.
    #[inline]
    pub(super) fn hold_lightly(&self) -> Option<LightSetGuard<'_>> {
        let critical = Critical::enter()?;
        // The only thread needs no lock within its critical section.
        let locked = !thread::is_single();
        if locked {
            self.lock.try_lock(critical.0.id()).ok()?;
        }
        let held = LightSetGuard {
            set: self,
            locked,
            _critical: critical,
        };
        // SAFETY: the lock is held.
        unsafe { &*self.state.get() }.is_followed().then_some(held)
    }

    /// To use the set: a child that inherited it makes it its own, and who finds that another process
    /// did so lets go of its members.
    pub fn hold(&self) -> Option<SetGuard<'_>> {
        let mut held = self.hold_raw()?;
        held.state().follow_processes();
        Some(held)
    }

    /// To follow what happens to members. `None` in a child that has only inherited the set: it does
    /// not speak for its parent.
    pub fn hold_own(&self) -> Option<SetGuard<'_>> {
        let mut held = self.hold_raw()?;
        (held.state().owner == os::pid::get()).then_some(held)
    }

    /// Around fork; only for sets in use.
    pub fn lock_for_fork(&self) {
        let Some(me) = Thread::me() else { return };
        let mut backoff = Backoff::default();
        while self.lock.try_lock(me.id()).is_err() {
            backoff.pause();
        }
        // SAFETY: this thread holds the lock.
        if let Some(holders) = unsafe { &*self.state.get() }.holders {
            self.arrived.store(holders.arrived(), Ordering::Relaxed);
        }
    }

    /// Only if it is ours: another thread may have made a set in between.
    pub fn unlock_after_fork(&self, forked: Forked) {
        let Some(me) = Thread::me() else { return };
        if !self.lock.is_held_by(me.id()) {
            return;
        }
        // SAFETY: this thread holds the lock.
        if let Some(holders) = unsafe { &*self.state.get() }.holders {
            match forked {
                Forked::Child(me) => holders.arrive(me),
                // One that has said so itself may have let go again, or be another program by now.
                Forked::Parent(child)
                    if holders.arrived() == self.arrived.load(Ordering::Relaxed) =>
                {
                    holders.add(child);
                }
                Forked::Parent(_) | Forked::Failed => {}
            }
        }
        self.lock.unlock_if(me.id());
    }

    /// This process lets go of the set, or does not after all.
    pub fn held_by_me(&self, yes: bool) {
        if let Some(holders) = self.hold_raw().and_then(|mut held| held.state().holders) {
            if yes {
                holders.come_back(os::pid::get());
            } else {
                holders.remove(os::pid::get());
            }
        }
    }

    /// This process becomes another program, and the set stays open.
    pub fn goes_to_other_program(&self) {
        if let Some(holders) = self.hold_raw().and_then(|mut held| held.state().holders) {
            holders.becomes_other_program(os::pid::get());
        }
    }

    /// The last number is closed.
    pub fn clear(&self) {
        let Some(mut held) = self.hold_raw() else {
            return;
        };
        let state = held.state();
        let waiter = if state.owner == os::pid::get() {
            state.remove_all();
            state.waiter.take()
        } else {
            None
        };
        if let Some(holders) = state.holders.take() {
            holders.remove(os::pid::get());
        }
        *state = SetState::default();
        self.uses.fetch_add(1, Ordering::AcqRel);
        drop(held);
        if let Some(waiter) = waiter {
            waiter::give_back(waiter);
        }
    }

    pub fn fds_of(&self, number: u32) -> Vec<RawFd> {
        let Some(mut held) = self.hold_own() else {
            return Vec::new();
        };
        let members = held.state().members.values();
        members
            .filter(|member| member.handle.number == number)
            .map(|member| member.fd)
            .collect()
    }

    /// The records of its members.
    pub fn connections(&self) -> Vec<u32> {
        let Some(mut held) = self.hold_own() else {
            return Vec::new();
        };
        let members = held.state().members.values();
        members.map(|member| member.handle.number).collect()
    }

    /// The kernel's registration stays as it is.
    pub fn forget(&self, fd: RawFd) {
        if let Some(mut held) = self.hold_own() {
            held.state().remove(fd);
        }
    }

    pub fn convert(&self, fd: RawFd) {
        if let Some(mut held) = self.hold_own() {
            held.state().convert(fd, self.all_are_up());
        }
    }

    /// Would a managed connection behind this number be one that the set can tell about?
    pub fn may_convert(&self, fd: RawFd) -> bool {
        let is_member = self
            .hold_raw()
            .is_some_and(|mut held| held.state().members.contains_key(&fd));
        !is_member || self.may_have_ours()
    }

    /// Can it tell about rings?
    pub fn may_have_ours(&self) -> bool {
        let Some(mut held) = self.hold_raw() else {
            return true;
        };
        let state = held.state();
        if let Some(holders) = state.holders {
            holders.forget_those_who_closed(|| super::number_of(self));
        }
        // A child that has not used an inherited set yet does not speak for its members.
        state.owner == os::pid::get() && state.is_alone()
    }

    /// Somebody has changed something about a member: it gets its wires now, and a look at the next
    /// wait (a sleeper is woken for it if it is ready already). `blocked`: it could not write.
    pub fn touch(&self, fd: RawFd, blocked: bool) {
        let Some(mut held) = self.hold_own() else {
            return;
        };
        let state = held.state();
        let Some(member) = state.members.get_mut(&fd) else {
            return;
        };
        member.told.blocked |= blocked;
        if member.converted.is_some() && !member.disabled {
            state.arm(fd);
            state.enqueue(fd);
            self.wake(state);
        }
    }

    /// Whatever holds at the next look is news.
    pub fn renew(&self, fd: RawFd) {
        if let Some(mut held) = self.hold_own()
            && let Some(member) = held.state().members.get_mut(&fd)
        {
            member.told.once = false;
        }
    }

    /// A thread of our own that sleeps in the kernel's wait, or somebody who waits for the set from
    /// outside, looks at the queue.
    pub fn wake(&self, state: &SetState) {
        if !self.all_are_up() || self.watched.load(Ordering::Relaxed) {
            state.ring_myself();
        }
    }

    /// No thread of ours sleeps in the kernel's wait.
    pub fn all_are_up(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) == 0 && !self.plain.has_dozers()
    }

    /// One more thread is going to sleep in the kernel's wait. Under the lock, as getting up: one
    /// thread's last step must not undo another's first.
    pub fn lie_down(&self) -> ArmResult {
        let mut held = self.hold();
        self.sleepers.fetch_add(1, Ordering::AcqRel);
        let Some(held) = &mut held else {
            return ArmResult::default();
        };
        let state = held.state();
        if let Some(waiter) = state.waiter {
            crate::runtime::sleep_state::lie_down(waiter);
        }
        ArmResult {
            ringing: state.waiter.is_some(),
            stalled: !state.stalled.is_empty(),
            conversions: state.conversions,
        }
    }

    pub fn get_up(&self) {
        let held = self.hold();
        self.sleepers.fetch_sub(1, Ordering::AcqRel);
        self.rest(held);
    }

    /// After a doze: nobody rings for dozers who are up.
    pub fn rest_if_all_are_up(&self) {
        self.rest(self.hold());
    }

    fn rest(&self, mut held: Option<SetGuard<'_>>) {
        let watched = self.watched.load(Ordering::Relaxed);
        let waiter = held.as_mut().and_then(|held| held.state().waiter);
        if let Some(waiter) = waiter.filter(|_| self.all_are_up() && !watched) {
            waiter.get_up();
        }
    }

    pub fn end_doze(&self) {
        self.plain.end();
    }

    /// Of the kernel's events, keeps the program's own and takes note of ours.
    pub fn keep_theirs(&self, events: &mut [epoll_event]) -> usize {
        match self.hold() {
            Some(mut held) => held.state().keep_theirs(events).all,
            None => events.len(),
        }
    }

    /// The member's connection is about to be plain again.
    pub fn restore(&self, fd: RawFd) {
        if let Some(mut held) = self.hold_own() {
            held.state().restore(fd);
        }
    }

    pub fn take_out(&self, fd: RawFd) -> Option<Entry> {
        let mut held = self.hold_own()?;
        held.state().take_out(fd)
    }

    /// The set goes where we are not: another program, or another process that got it passed.
    pub fn only_by_kernel(&self, epfd: RawFd, rest: Rest) {
        // Without the lock: peers are given a moment to send again what lies in their rings.
        let handles = self.hold().map(|mut held| held.state().converted());
        hand_over(&handles.unwrap_or_default(), Reason::Waiters, rest);
        if let Some(mut held) = self.hold() {
            let state = held.state();
            state.give_up_all(Reason::Waiters);
            state.take_bells_out(epfd);
            state.kernel_only = true;
        }
    }
}
