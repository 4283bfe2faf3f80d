//! What is asked of a connection from outside of its program: a word in its record.
//!
//! Who asks has seen the record in one of its uses (its generation). Meanwhile it may serve another connection: so the
//! word names the use that it is for, and means nothing to any other. It holds what is asked last: who is told to look,
//! by a flag that is set after the word, does what it says then, however often it has changed. Anything may stand
//! there, for others write it: the meaning of `what` is the reader's to check.

use super::sync::{AtomicU64, Ordering};

/// In the socket record; all zero asks nothing, as the first use of a record is number 1.
#[repr(transparent)]
pub struct OrderWord(AtomicU64);

#[cfg(not(loom))]
crate::in_shared_memory!(OrderWord { 0 });

fn generation_of(word: u64) -> u32 {
    (word >> 32) as u32
}

impl OrderWord {
    pub fn new() -> OrderWord {
        OrderWord(AtomicU64::new(0))
    }

    /// Asks this of the use `generation`, if that is the record's `current` one. `false`: its connection is gone. What was
    /// asked of a later use by another is never overwritten: it has seen that use, and who sees its word sees that too.
    pub fn ask(&self, generation: u32, what: u32, current: impl Fn() -> u32) -> bool {
        let word = u64::from(generation) << 32 | u64::from(what);
        let mut before = self.0.load(Ordering::Acquire);
        loop {
            if current() != generation {
                return false;
            }
            let asked = self
                .0
                .compare_exchange(before, word, Ordering::AcqRel, Ordering::Acquire);
            match asked {
                Ok(_) => return true,
                Err(other) => before = other,
            }
        }
    }

    /// What is asked of this use, if anything.
    #[inline]
    pub fn asked(&self, generation: u32) -> Option<u32> {
        let word = self.0.load(Ordering::Acquire);
        (generation_of(word) == generation).then_some(word as u32)
    }
}

impl Default for OrderWord {
    fn default() -> OrderWord {
        OrderWord::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let word = OrderWord::new();
        assert_eq!(word.asked(1), None);
        assert!(word.ask(1, 5, || 1) && word.ask(1, 6, || 1));
        assert_eq!(word.asked(1), Some(6));
    }

    #[test]
    fn another_use_of_the_record_is_not_meant() {
        let word = OrderWord::new();
        assert!(word.ask(1, 5, || 1));
        assert_eq!(word.asked(2), None);
        assert!(word.ask(2, 7, || 2));
        assert!(!word.ask(1, 5, || 2), "its connection is gone");
        assert_eq!((word.asked(1), word.asked(2)), (None, Some(7)));
    }
}
