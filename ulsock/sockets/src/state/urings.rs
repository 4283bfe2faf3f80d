//! The io_urings of this process: which descriptor is one, its submission queue, and how far that was looked at.
//!
//! An io_uring is known from its making to the close of its last number. Like epoll sets they are numbered and never
//! freed, only used again.
//!
//! Several threads may submit to one at the same time, and whoever enters the kernel takes the entries that are first in
//! the queue, whoever wrote them. So what one may take is granted under a lock ([`UringState::grant`]): all positions before
//! `granted` belong to calls under way, and none is granted that was not looked at. The kernel takes exactly as many entries as
//! it is asked to, if they are there, or fewer; what it has left is given back ([`Uring::ended`]). Thus it never comes
//! to an entry that nobody has looked at, although the lock is not held while it works.

mod served;

use std::cell::UnsafeCell;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use netstack::ring::SideLock;

use crate::runtime::thread::Critical;
use crate::state::table::{self, Slot};
use os::backoff::Backoff;
use os::uring::{MappedQueue, Params, SubmissionQueue, setup};

pub use served::{KeptOperation, Made, Maker, Served, any_is_served};

/// Of one process at a time.
const MOST_URINGS: usize = 4096;

os::process_wide! {
    static URINGS: [AtomicPtr<Uring>; MOST_URINGS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_URINGS];
    static HIGHEST: AtomicU32 = AtomicU32::new(0);
}

/// One io_uring.
pub struct Uring {
    lock: SideLock,
    /// Numbers of this process that name it; 0: free.
    numbers: AtomicU32,
    state: UnsafeCell<UringState>,
}

// SAFETY: `state` is touched only under `lock`.
unsafe impl Sync for Uring {}
// SAFETY: nothing in it belongs to a thread but `served`, which is for its owner alone or for whoever has taken it.
unsafe impl Send for Uring {}

#[derive(Default)]
pub struct UringState {
    /// `None` if liburing has made it, whose functions are given where the queue is; or if it was inherited.
    mapped: Option<MappedQueue>,
    /// It only polls: operations that it does not know there fail.
    pub polls: bool,
    /// An entry has waited for all before it, and those behind it for this one: nothing may be done early any more.
    pub drains: bool,
    /// Entries before this position were looked at.
    pub looked: u32,
    /// Was the entry before that position linked to the next one?
    pub linked: bool,
    /// Positions before this one belong to calls under way, of which there are so many.
    granted: u32,
    calls: u32,
    /// The thread that acts on entries it has found, outside of the lock; 0: none.
    pub acting: u32,
    /// Its entries may be served from rings.
    served: Option<Box<Served>>,
}

/// What a call may take.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub entries: u32,
    /// Its end must be told.
    pub is_noted: bool,
}

/// The lock of one, within a critical section.
pub struct Held<'a> {
    uring: &'a Uring,
    pub me: u32,
    _critical: Critical,
}

impl Held<'_> {
    pub fn state(&mut self) -> &mut UringState {
        // SAFETY: the lock is held, and this guard is the only way to the state.
        unsafe { &mut *self.uring.state.get() }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.uring.lock.unlock();
    }
}

pub fn get(number: u32) -> Option<&'static Uring> {
    // SAFETY: null or leaked by `place`.
    unsafe {
        URINGS
            .get(number as usize)?
            .load(Ordering::Acquire)
            .as_ref()
    }
}

/// The io_uring behind a descriptor.
pub fn of(fd: RawFd) -> Option<&'static Uring> {
    match table::get(fd) {
        Slot::Uring(number) => get(number),
        _ => None,
    }
}

/// May it be looked at, if it was made with these flags?
pub fn are_supported(flags: u32) -> bool {
    const NOT: u32 = setup::SQPOLL | setup::SQ_AFF | setup::REGISTERED_FD_ONLY | !setup::KNOWN;
    flags & NOT == 0
}

/// One was made, and this is its descriptor. `false`: nobody could look at what it is asked.
pub fn opened(fd: RawFd, params: &Params) -> bool {
    // SAFETY: the program has just been given the number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let mapped = are_supported(params.flags).then(|| MappedQueue::new(socket, params).ok());
    match mapped.flatten() {
        Some(mapped) => begin(fd, params.flags, Some(mapped)),
        None => false,
    }
}

/// The same by a function of liburing's.
pub fn opened_by_liburing(fd: RawFd, flags: u32) -> bool {
    are_supported(flags) && begin(fd, flags, None)
}

fn begin(fd: RawFd, flags: u32, mapped: Option<MappedQueue>) -> bool {
    let place = place();
    let held = place.and_then(|(number, uring)| Some((number, uring.hold()?)));
    let Some((number, mut held)) = held else {
        if let Some(mapped) = mapped {
            mapped.unmap();
        }
        return false;
    };
    let owner = held.me;
    let may_be_served = mapped.is_none() && served::may_be(flags);
    let mut served = may_be_served.then(|| Served::new(owner));
    *held.state() = UringState {
        mapped,
        polls: flags & setup::IOPOLL != 0,
        served: served.take(),
        ..UringState::default()
    };
    drop(held);
    table::set(fd, Slot::Uring(number))
}

/// A free one, with one number.
fn place() -> Option<(u32, &'static Uring)> {
    let known =
        (0..HIGHEST.load(Ordering::Acquire)).filter_map(|number| Some((number, get(number)?)));
    let take = |uring: &Uring| {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        uring
            .numbers
            .compare_exchange(0, 1, order.0, order.1)
            .is_ok()
    };
    if let Some(free) = known.into_iter().find(|(_, uring)| take(uring)) {
        return Some(free);
    }
    let number = HIGHEST.fetch_add(1, Ordering::AcqRel);
    if number as usize >= MOST_URINGS {
        HIGHEST.store(MOST_URINGS as u32, Ordering::Release);
        return None;
    }
    let new = Box::new(Uring {
        lock: SideLock::new(),
        numbers: AtomicU32::new(1),
        state: UnsafeCell::new(UringState::default()),
    });
    URINGS[number as usize].store(Box::into_raw(new), Ordering::Release);
    Some((number, get(number)?))
}

/// One more number for it.
pub fn duped(number: u32) {
    if let Some(uring) = get(number) {
        uring.numbers.fetch_add(1, Ordering::AcqRel);
    }
}

/// One number less. With the last one our mapping goes: it would keep the io_uring, and all that it holds, alive. What was
/// kept for it is nobody's any more.
#[must_use]
pub fn closed(number: u32) -> Option<Box<Served>> {
    let uring = get(number)?;
    let is_last = uring.numbers.load(Ordering::Acquire) == 1;
    let served = is_last.then(|| uring.take_served()).flatten();
    // Whoever takes it for another finds it without a queue.
    if is_last && let Some(mapped) = uring.hold().and_then(|mut held| held.state().mapped.take()) {
        mapped.unmap();
    }
    uring.numbers.fetch_sub(1, Ordering::AcqRel);
    served
}

/// In a forked child, which has this thread alone: it has its parent's numbers, but neither the mappings nor the threads.
/// Without a queue it cannot look into those that were made by libc's `syscall`; into liburing's it can.
pub fn after_fork() {
    served::forget_all();
    for uring in (0..HIGHEST.load(Ordering::Acquire)).filter_map(get) {
        // SAFETY: no other thread is there that could hold the lock, or be about to.
        let state = unsafe { &mut *uring.state.get() };
        *state = UringState {
            polls: state.polls,
            drains: state.drains,
            ..UringState::default()
        };
        uring.lock.unlock();
    }
}

impl Uring {
    /// `None`: this thread cannot have it.
    pub fn hold(&self) -> Option<Held<'_>> {
        let mut backoff = Backoff::default();
        loop {
            let critical = Critical::enter()?;
            let me = critical.0.id();
            match self.lock.try_lock(me) {
                Ok(()) => {
                    return Some(Held {
                        uring: self,
                        me,
                        _critical: critical,
                    });
                }
                Err(owner) if owner == me => return None,
                Err(_) => drop(critical),
            }
            backoff.pause();
        }
    }

    /// A call is over that was granted so many entries, and has taken these.
    pub fn ended(&self, granted: u32, taken: u32) {
        if let Some(mut held) = self.hold() {
            held.state().ended(granted, taken);
        }
    }
}

impl UringState {
    pub fn queue(&self) -> Option<SubmissionQueue> {
        self.mapped.as_ref().map(|mapped| mapped.queue)
    }

    /// A call begins. While no other is under way, all that the kernel has left is looked at again: a program may have changed
    /// what was not taken.
    pub fn begin(&mut self, queue: &SubmissionQueue) {
        let (head, tail) = (queue.head(), queue.tail());
        if self.calls == 0 || tail.wrapping_sub(self.looked) > queue.count {
            (self.looked, self.granted, self.linked) = (head, head, false);
        }
        // An entry that the kernel could not find is passed without being counted.
        if is_behind(self.granted, head) {
            self.granted = head;
        }
        if is_behind(self.looked, head) {
            self.looked = head;
        }
    }

    /// The positions that nobody has looked at yet.
    pub fn unseen(&self, queue: &SubmissionQueue) -> std::ops::Range<u32> {
        let tail = queue.tail();
        match tail.wrapping_sub(self.looked) <= queue.count {
            true => self.looked..tail,
            // No queue that the kernel would go by.
            false => self.looked..self.looked,
        }
    }

    /// What a call may take that begins now and wants so many entries; `alone`: there is no other thread.
    pub fn grant(&mut self, wanted: u32, alone: bool) -> Grant {
        let entries = wanted.min(self.looked.wrapping_sub(self.granted));
        // Of a call that cannot meet another one nothing need be known.
        let is_noted = entries > 0 && (self.calls > 0 || !alone);
        if is_noted {
            self.granted = self.granted.wrapping_add(entries);
            self.calls += 1;
        }
        Grant { entries, is_noted }
    }

    fn ended(&mut self, granted: u32, taken: u32) {
        self.calls = self.calls.saturating_sub(1);
        self.granted = self.granted.wrapping_sub(granted.saturating_sub(taken));
    }
}

fn is_behind(position: u32, other: u32) -> bool {
    position.wrapping_sub(other).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use os::uring::Sqe;

    use super::*;

    /// A queue of the test's own, whose kernel takes what it is told to.
    struct Fake {
        head: AtomicU32,
        tail: AtomicU32,
        entries: Vec<Sqe>,
    }

    impl Fake {
        fn new(at: u32) -> Fake {
            Fake {
                head: AtomicU32::new(at),
                tail: AtomicU32::new(at),
                entries: vec![Sqe::default(); 8],
            }
        }

        fn queue(&self) -> SubmissionQueue {
            SubmissionQueue {
                head: &self.head,
                tail: &self.tail,
                array: std::ptr::null(),
                entries: self.entries.as_ptr().cast_mut(),
                count: 8,
                entry_size: 1,
            }
        }

        fn add(&self, count: u32) {
            self.tail.fetch_add(count, Ordering::Relaxed);
        }

        fn take(&self, count: u32) {
            self.head.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn look(state: &mut UringState, fake: &Fake) -> u32 {
        state.begin(&fake.queue());
        let unseen = state.unseen(&fake.queue());
        state.looked = unseen.end;
        unseen.end.wrapping_sub(unseen.start)
    }

    fn grant(state: &mut UringState, wanted: u32) -> u32 {
        let grant = state.grant(wanted, false);
        assert_eq!(grant.is_noted, grant.entries > 0);
        grant.entries
    }

    #[test]
    fn one_thread_is_granted_what_is_there() {
        let (fake, mut state) = (Fake::new(u32::MAX - 2), UringState::default());
        for _ in 0..5 {
            fake.add(3);
            assert_eq!(look(&mut state, &fake), 3);
            assert_eq!(grant(&mut state, 7), 3);
            fake.take(3);
            state.ended(3, 3);
        }
        assert_eq!(look(&mut state, &fake), 0);
        assert_eq!(grant(&mut state, 1), 0);
    }

    #[test]
    fn what_the_kernel_leaves_is_looked_at_again() {
        let (fake, mut state) = (Fake::new(0), UringState::default());
        fake.add(4);
        assert_eq!(look(&mut state, &fake), 4);
        assert_eq!(grant(&mut state, 4), 4);
        fake.take(1);
        state.ended(4, 1);
        assert_eq!(look(&mut state, &fake), 3);
        assert_eq!(grant(&mut state, 4), 3);
    }

    #[test]
    fn two_calls_are_not_granted_the_same_entries() {
        let (fake, mut state) = (Fake::new(5), UringState::default());
        fake.add(1);
        assert_eq!(look(&mut state, &fake), 1);
        assert_eq!(grant(&mut state, 1), 1);
        // Another thread wants the same, and there is nothing else.
        assert_eq!(look(&mut state, &fake), 0);
        assert_eq!(grant(&mut state, 1), 0);
        // Of two more, it gets these: the first is the other's still, whether the kernel has it or not.
        fake.add(2);
        assert_eq!(look(&mut state, &fake), 2);
        assert_eq!(grant(&mut state, 9), 2);
        fake.take(3);
        state.ended(1, 1);
        state.ended(2, 2);
        assert_eq!(look(&mut state, &fake), 0);
    }

    #[test]
    fn an_entry_that_the_kernel_drops_holds_nobody_up() {
        let (fake, mut state) = (Fake::new(0), UringState::default());
        fake.add(3);
        assert_eq!(look(&mut state, &fake), 3);
        assert_eq!(grant(&mut state, 1), 1);
        assert_eq!(grant(&mut state, 2), 2);
        // The one of the first call was dropped, and counts as not taken; the second is under way.
        fake.take(3);
        state.ended(1, 0);
        assert_eq!(look(&mut state, &fake), 0);
        assert_eq!(grant(&mut state, 1), 0);
        fake.add(1);
        assert_eq!(look(&mut state, &fake), 1);
        assert_eq!(grant(&mut state, 1), 1);
    }
}
