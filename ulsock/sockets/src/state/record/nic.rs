//! What a connection knows about the link to another host.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use netstack::failover;

use super::{Owed, Worth};

/// All bytes are acknowledged.
pub const NOTHING_WAITS: u64 = u64::MAX;

/// What a connection knows about the link to another host; see `conn/nic`. Times are those of `os::clock::coarse_ms`.
#[repr(C, align(64))]
pub struct Nic {
    /// Under the sending lock, and only with `flag::NIC`.
    pub side: UnsafeCell<MaybeUninit<failover::Side>>,
    /// Under the sending lock.
    pub owed: UnsafeCell<Owed>,
    /// The peer's last proposal that we have dealt with.
    pub seen: AtomicU64,
    /// An error that the kernel socket has told where no call could report it.
    pub error: AtomicU64,
    /// The last one that we have looked at.
    pub tried: AtomicU64,
    /// The first byte that was not acknowledged at the last look, or [`NOTHING_WAITS`], and when that was seen
    /// first.
    pub waits_at: AtomicU64,
    pub since: AtomicU64,
    /// When the kernel's end was first seen, on the link; 0: not yet.
    pub asked: AtomicU64,
    /// When the next promotion may be proposed, and the pause before it.
    pub next: AtomicU64,
    pause: AtomicU64,
    /// How much further the streams are than the kernel has counted: the link has carried some of them, and
    /// the kernel some records. Modulo 2^64.
    pub sent_beyond: AtomicU64,
    pub read_beyond: AtomicU64,
    pub worth: Worth,
    /// It has carried the connection.
    used: AtomicU32,
}

// SAFETY: the cells are touched only under the sending lock.
unsafe impl Sync for Nic {}

impl Nic {
    pub fn note_use(&self) {
        self.used.store(1, Ordering::Relaxed);
    }

    /// Has the link carried the connection?
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed) != 0
    }

    /// On the link from now on.
    pub fn begin(&self) {
        self.waits_at.store(NOTHING_WAITS, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
        self.pause.store(0, Ordering::Relaxed);
        self.worth.begin();
    }

    /// In another block nobody has proposed anything yet.
    pub fn begin_again(&self) {
        self.seen.store(0, Ordering::Relaxed);
        self.tried.store(0, Ordering::Relaxed);
    }

    /// A promotion has failed: the next one later.
    pub fn put_off(&self, now: u64, first: u64, longest: u64) {
        let pause = (2 * self.pause.load(Ordering::Relaxed)).clamp(first, longest);
        self.pause.store(pause, Ordering::Relaxed);
        self.next.store(now + pause, Ordering::Relaxed);
    }

    /// Whether one has.
    pub fn was_put_off(&self) -> bool {
        self.pause.load(Ordering::Relaxed) != 0
    }

    pub(super) fn reset(&self) {
        self.used.store(0, Ordering::Relaxed);
        for word in [
            &self.error,
            &self.seen,
            &self.tried,
            &self.asked,
            &self.next,
            &self.pause,
            &self.sent_beyond,
            &self.read_beyond,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.worth.reset();
        // SAFETY: the record was free and has just been claimed: nobody else uses it.
        unsafe { *self.owed.get() = Owed::NONE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = 10;
    const LONGEST: u64 = 100;

    fn fresh() -> Nic {
        // SAFETY: all zero is a valid record.
        unsafe { std::mem::zeroed() }
    }

    /// How long after this failure the next proposal may come.
    fn pause_after(nic: &Nic, now: u64) -> u64 {
        nic.put_off(now, FIRST, LONGEST);
        assert!(nic.was_put_off());
        nic.next.load(Ordering::Relaxed) - now
    }

    #[test]
    fn each_failure_doubles_the_pause() {
        let nic = fresh();
        assert!(!nic.was_put_off());
        let pauses = [1_000, 2_000, 3_000, 4_000, 5_000, 6_000].map(|now| pause_after(&nic, now));
        assert_eq!(pauses, [10, 20, 40, 80, LONGEST, LONGEST]);
    }

    #[test]
    fn after_a_success_it_begins_anew() {
        let nic = fresh();
        for now in 0..5 {
            pause_after(&nic, now);
        }
        nic.begin();
        assert!(!nic.was_put_off());
        assert_eq!(pause_after(&nic, 7_000), FIRST);
    }

    /// The record is another connection's now.
    #[test]
    fn the_next_connection_knows_of_no_pause() {
        let nic = fresh();
        for now in 0..5 {
            pause_after(&nic, now);
        }
        nic.reset();
        assert!(!nic.was_put_off());
        assert_eq!(nic.next.load(Ordering::Relaxed), 0);
        assert_eq!(pause_after(&nic, 7_000), FIRST);
    }
}
