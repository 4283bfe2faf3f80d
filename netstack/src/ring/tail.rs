//! The tail word of a ring that an engine fills: an offset, and three flags above it.
//!
//! It is the truth about what has arrived (`[F5]`, `[F11]` of docs/failover.md). The engine changes it by
//! compare-and-swap only, and nothing changes it after FROZEN was set: an engine that was
//! stopped in between and wakes later finds that its swap fails. A ring between two processes has
//! none of the flags; a reader of its tail takes the offset alone.

use super::mark::MAX_OFFSET;
use super::sync::{AtomicU64, Ordering};

const OPEN: u64 = 1 << 61;
const ENDED: u64 = 1 << 62;
const FROZEN: u64 = 1 << 63;

/// A tail word as it was read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail(u64);

impl Tail {
    /// Looks at a word.
    #[inline]
    pub fn read(word: &AtomicU64) -> Tail {
        Tail(word.load(Ordering::Acquire))
    }

    /// Can it be an offset?
    pub fn is_offset(offset: u64) -> bool {
        offset < MAX_OFFSET
    }

    /// Behind the last byte that is in the ring.
    #[inline]
    pub fn offset(self) -> u64 {
        self.0 & (MAX_OFFSET - 1)
    }

    /// `[F6]` The peer is bound.
    pub fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    /// `[F13]` No byte follows.
    pub fn has_ended(self) -> bool {
        self.0 & ENDED != 0
    }

    /// `[F5]` It never changes again.
    pub fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }
}

/// The ring has been taken away from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenAway;

/// `[F4]` A word for a new promotion.
pub fn begin(word: &AtomicU64, offset: u64) {
    word.store(offset & (MAX_OFFSET - 1), Ordering::Release);
}

/// `[F6]` Says that the peer is bound.
pub fn open(word: &AtomicU64) -> Result<(), TakenAway> {
    change(word, |tail| tail | OPEN)
}

/// `[F11]` `[F13]` Everything up to `offset` is there; with `ended` nothing follows. A look at a tripwire
/// may follow at once.
#[inline]
pub fn publish(word: &AtomicU64, offset: u64, ended: bool) -> Result<(), TakenAway> {
    let flags = if ended { ENDED } else { 0 };
    change(word, |tail| offset | flags | tail & OPEN)
}

/// `[F16]` Takes the ring away from the engine; what the word says from now on.
pub fn freeze(word: &AtomicU64) -> Tail {
    Tail(word.fetch_or(FROZEN, Ordering::SeqCst) | FROZEN)
}

#[inline]
fn change(word: &AtomicU64, to: impl Fn(u64) -> u64) -> Result<(), TakenAway> {
    let mut now = word.load(Ordering::Relaxed);
    while now & FROZEN == 0 {
        // Only a freeze writes here besides the engine: a second turn is rare, a third impossible.
        match word.compare_exchange(now, to(now), Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(changed) => now = changed,
        }
    }
    Err(TakenAway)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn goes_through_its_life() {
        let word = AtomicU64::new(0);
        begin(&word, 7);
        assert!(!Tail::read(&word).is_open());
        assert_eq!(open(&word), Ok(()));
        assert_eq!(publish(&word, 9, false), Ok(()));
        assert!(Tail::read(&word).is_open() && !Tail::read(&word).has_ended());
        assert_eq!(publish(&word, 12, true), Ok(()));
        let tail = Tail::read(&word);
        assert!(tail.is_open() && tail.has_ended() && !tail.is_frozen());
        assert_eq!(tail.offset(), 12);
    }

    #[test]
    fn never_changes_once_frozen() {
        let word = AtomicU64::new(0);
        begin(&word, 7);
        let frozen = freeze(&word);
        assert!(frozen.is_frozen() && frozen.offset() == 7);
        assert_eq!(open(&word), Err(TakenAway));
        assert_eq!(publish(&word, 9, true), Err(TakenAway));
        assert_eq!(freeze(&word), frozen);
        assert_eq!(Tail::read(&word), frozen);
    }
}
