//! Until when copies are wanted: in the header of a family, one word for each of a few captures at a time.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use netstack::circle::Counters;
use netstack::in_shared_memory;

/// Captures of one program at a time.
pub const SLOTS: usize = 4;
/// So far ahead a capture says that it lasts, in nanoseconds. Renewed every second.
const AHEAD: u64 = 3_000_000_000;
/// What is further ahead is a clock that was set, or a lie.
const BEYOND: u64 = 10_000_000_000;

/// A capture's place, and until when it is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub slot: usize,
    until: u64,
}

/// In a family's header; all zero is off.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Switch {
    /// Nanoseconds since 1970; 0: free.
    until: [AtomicU64; SLOTS],
    pub counters: Counters,
}

in_shared_memory!(Switch { until, counters });

fn is_ahead(until: u64, now: u64) -> bool {
    until > now && until - now <= BEYOND
}

impl Switch {
    /// Has any capture said that it lasts, whatever the time is?
    #[inline]
    pub fn is_used(&self) -> bool {
        self.until.iter().any(|it| it.load(Ordering::Relaxed) != 0)
    }

    pub fn is_on(&self, now: u64) -> bool {
        fence(Ordering::SeqCst);
        let is_on = |it: &AtomicU64| is_ahead(it.load(Ordering::SeqCst), now);
        self.until.iter().any(is_on)
    }

    /// A place for a capture, which is on from now; `None`: there are as many as there may be.
    pub(super) fn begin(&self, now: u64) -> Option<Lease> {
        let until = now + AHEAD;
        let free = |it: &AtomicU64| {
            let before = it.load(Ordering::Acquire);
            !is_ahead(before, now)
                && it
                    .compare_exchange(before, until, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
        };
        let slot = self.until.iter().position(free)?;
        Some(Lease { slot, until })
    }

    /// `false`: it has run out, and the circle may have lost its memory.
    pub(super) fn renew(&self, lease: &mut Lease, now: u64) -> bool {
        let is_ours = is_ahead(lease.until, now) && self.put(lease, now + AHEAD);
        if is_ours {
            lease.until = now + AHEAD;
        }
        is_ours
    }

    fn put(&self, lease: &Lease, until: u64) -> bool {
        let order = Ordering::SeqCst;
        self.until[lease.slot]
            .compare_exchange(lease.until, until, order, order)
            .is_ok()
    }

    /// Whether it was the last: nobody begins to write copies from here on.
    pub(super) fn end(&self, lease: &Lease, now: u64) -> bool {
        self.put(lease, 0);
        fence(Ordering::SeqCst);
        !self.is_on(now)
    }

    /// Who reserved a place in the circle has left it, as far as they have not been killed or stopped there.
    pub(super) fn is_left(&self) -> bool {
        let finished = self.counters.finished.load(Ordering::SeqCst);
        finished == self.counters.reserved.load(Ordering::SeqCst)
    }
}
