//! The word of a young connection: which life its entry is in, how many calls are inside, and its record.
//!
//! From below: calls that receive, calls that send, the record's number plus one, the life.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::way::Way;

const SEND_AT: u32 = 16;
const RECORD_AT: u32 = 32;
const LIFE_AT: u32 = 49;
const CALLS: u64 = (1 << 16) - 1;
/// Half of what can be counted: as many may come and be turned away at the same time.
const MOST_CALLS: u64 = CALLS / 2;
const RECORDS: u64 = (1 << (LIFE_AT - RECORD_AT)) - 1;
/// Lives that are told apart.
const LIVES: u32 = 1 << (64 - LIFE_AT);
const INSIDE: u64 = (1 << RECORD_AT) - 1;

const _: () = assert!((crate::state::process_group::RECORDS as u64) < RECORDS);

pub struct Word(AtomicU64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entrance {
    In,
    Grown(u32),
    /// Another life, with a record or without.
    Stale {
        grown: bool,
    },
    Full,
}

impl Entrance {
    /// Was there a record already? Then nobody has entered its gate for who came.
    pub fn found_record(self) -> bool {
        matches!(self, Entrance::Grown(_) | Entrance::Stale { grown: true })
    }
}

/// A value of the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen(u64);

impl Seen {
    fn life(self) -> u32 {
        (self.0 >> LIFE_AT) as u32
    }

    fn record(self) -> Option<u32> {
        ((self.0 >> RECORD_AT & RECORDS) as u32).checked_sub(1)
    }

    fn inside(self, way: Way) -> u64 {
        (self.0 / unit(way)) & CALLS
    }
}

#[inline]
fn unit(way: Way) -> u64 {
    match way {
        Way::In => 1,
        Way::Out => 1 << SEND_AT,
    }
}

impl Word {
    #[cfg(test)]
    pub const fn new() -> Word {
        Word(AtomicU64::new(0))
    }

    #[inline]
    fn get(&self) -> Seen {
        Seen(self.0.load(Ordering::SeqCst))
    }

    /// The word as it is, if nobody is inside.
    #[inline]
    pub fn idle(&self) -> Option<Seen> {
        Some(self.get()).filter(|seen| seen.0 & INSIDE == 0)
    }

    /// The next life, if nothing has happened since `last`.
    #[inline]
    pub fn begin(&self, last: Seen) -> Option<u32> {
        let life = (last.life() + 1) % LIVES;
        let (new, order) = (u64::from(life) << LIFE_AT, Ordering::SeqCst);
        let begun = self.0.compare_exchange(last.0, new, order, order);
        begun.is_ok().then_some(life)
    }

    /// As if it had never been used.
    pub fn forget(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Whatever it says, the caller is inside, and leaves.
    #[inline]
    pub fn enter(&self, life: u32, way: Way) -> Entrance {
        let before = Seen(self.0.fetch_add(unit(way), Ordering::SeqCst));
        if before.life() != life {
            let grown = before.record().is_some();
            return Entrance::Stale { grown };
        }
        match before.record() {
            Some(number) => Entrance::Grown(number),
            None if before.inside(way) >= MOST_CALLS => Entrance::Full,
            None => Entrance::In,
        }
    }

    /// The record that there is by now: who did not know of it when it came leaves the gate, too.
    #[inline]
    pub fn leave(&self, way: Way) -> Option<u32> {
        Seen(self.0.fetch_sub(unit(way), Ordering::SeqCst)).record()
    }

    #[inline]
    pub fn record(&self) -> Option<u32> {
        self.get().record()
    }

    /// Gives it a record, if it has none: `enter` is told how many are inside, to send and to receive, perhaps more
    /// than once.
    pub fn publish(&self, number: u32, mut enter: impl FnMut([u32; 2])) -> bool {
        let (grown, order) = ((u64::from(number) + 1) << RECORD_AT, Ordering::SeqCst);
        loop {
            let seen = self.get();
            if seen.record().is_some() {
                return false;
            }
            enter([Way::Out, Way::In].map(|way| seen.inside(way) as u32));
            let published = self
                .0
                .compare_exchange(seen.0, seen.0 | grown, order, order);
            if published.is_ok() {
                return true;
            }
        }
    }

    pub fn is_inside(&self, way: Way) -> bool {
        self.get().inside(way) > 0
    }

    pub fn has_inside(&self, number: u32, way: Way) -> bool {
        let seen = self.get();
        seen.record() == Some(number) && seen.inside(way) > 0
    }
}
