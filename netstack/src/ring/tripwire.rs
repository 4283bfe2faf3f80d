//! A tripwire: how a waiter asks to be woken when a cursor passes a position.
//!
//! The waiting side arms (under its side lock), re-checks, and only then sleeps; the moving side
//! publishes its cursor, and only then looks at the wire. A SeqCst fence between the two steps on
//! each side makes sure that at least one of them sees the other: no wake-up is lost.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Waiters of one direction at a time: a thread in recv, one in poll, some epoll sets, forked holders.
pub const SLOTS: usize = 8;

/// A set of waiter slots, one bit each.
pub type Slots = u32;

/// Every slot.
pub const ALL: Slots = (1 << SLOTS) - 1;

/// In shared memory; the waiting side writes it, the moving side only clears bits of `armed` and leaves its stamp.
#[repr(C)]
pub struct Tripwire {
    armed: AtomicU32,
    _reserved: AtomicU32,
    at: AtomicU64,
    names: [AtomicU32; SLOTS],
    /// When it was last tripped, as the moving side says; what it means is theirs to agree on.
    stamp: AtomicU64,
}

#[cfg(not(loom))]
crate::in_shared_memory!(Tripwire {
    armed,
    _reserved,
    at,
    names,
    stamp
});

impl Tripwire {
    pub fn new() -> Tripwire {
        Tripwire {
            armed: AtomicU32::new(0),
            _reserved: AtomicU32::new(0),
            at: AtomicU64::new(0),
            names: core::array::from_fn(|_| AtomicU32::new(0)),
            stamp: AtomicU64::new(0),
        }
    }

    /// Waiting side, under its lock: asks for `name` to be rung when the cursor reaches `at`.
    /// The caller re-checks its condition afterwards, before it sleeps.
    pub fn arm(&self, slot: usize, name: u32, at: u64) {
        let others = self.armed.load(Ordering::Relaxed) & !(1 << slot);
        let least = if others == 0 {
            at
        } else {
            at.min(self.at.load(Ordering::Relaxed))
        };
        self.names[slot].store(name, Ordering::Relaxed);
        self.at.store(least, Ordering::Relaxed);
        self.armed.fetch_or(1 << slot, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Waiting side: no longer interested. A ring that is already under way may still come.
    pub fn disarm(&self, slot: usize) {
        if self.is_armed(slot) {
            self.armed.fetch_and(!(1 << slot), Ordering::Relaxed);
        }
    }

    pub fn is_armed(&self, slot: usize) -> bool {
        self.armed.load(Ordering::Relaxed) & (1 << slot) != 0
    }

    /// Moving side, after it has published `position` and fenced: the slots to ring now.
    #[inline]
    pub fn trip(&self, position: u64) -> Slots {
        if self.armed.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.trip_armed(position)
    }

    #[cold]
    fn trip_armed(&self, position: u64) -> Slots {
        // Acquire pairs with `arm`: after the bit is seen, the name and the position are.
        fence(Ordering::Acquire);
        if position < self.at.load(Ordering::Relaxed) {
            return 0;
        }
        self.armed.swap(0, Ordering::AcqRel) & ALL
    }

    /// Moving side: something other than the cursor changed; everybody shall look.
    pub fn trip_all(&self) -> Slots {
        self.trip(u64::MAX)
    }

    /// Moving side, after it has tripped the wire and before it says so: it owns the cache line now.
    pub fn leave_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::Relaxed);
    }

    /// Waiting side, once it has heard.
    pub fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// Whose bell hangs at `slot`, as the waiting side wrote it: check before use.
    pub fn name(&self, slot: usize) -> u32 {
        self.names[slot % SLOTS].load(Ordering::Relaxed)
    }
}

impl Default for Tripwire {
    fn default() -> Self {
        Tripwire::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn trips_at_the_position_and_only_once() {
        let wire = Tripwire::new();
        wire.arm(3, 77, 100);
        assert_eq!(wire.trip(99), 0);
        assert_eq!(wire.trip(100), 1 << 3);
        assert_eq!(wire.name(3), 77);
        assert_eq!(wire.trip(101), 0);
    }

    #[test]
    fn the_least_position_counts() {
        let wire = Tripwire::new();
        wire.arm(0, 1, 100);
        wire.arm(1, 2, 50);
        assert_eq!(wire.trip(60), 0b11);
    }

    #[test]
    fn a_disarmed_waiter_is_not_rung() {
        let wire = Tripwire::new();
        wire.arm(0, 1, 10);
        wire.disarm(0);
        assert_eq!(wire.trip_all(), 0);
    }
}
