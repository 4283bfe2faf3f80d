//! Letting a stream of small messages gather before it is read.
//!
//! Every look of the reader takes the cursor's cache line away from the writer, which then waits for
//! it at its next message. A reader that is faster than the writer, and so finds a message or two at
//! each of its looks, slows both of them down. If it looks a little later it finds more at once.
//!
//! This is for streams alone. Who answers between two receives, waits for news, fills its buffer, or
//! reads several connections in turn, looks at once.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Receives of this many bytes pay for their look.
const ENOUGH: usize = 8 << 10;
/// Pauses before a look, at most: some 50 ns each.
const MOST_PAUSES: u32 = 24;

/// A thread's latest receive.
#[derive(Default)]
pub struct ReadBatching {
    from: AtomicUsize,
    sent: AtomicU64,
    /// Before the next look, if it comes from the same place.
    pauses: AtomicU32,
}

/// A point in a connection's life: receives between which nothing was sent share it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StreamPoint {
    /// The connection's record.
    pub from: usize,
    /// Messages sent so far.
    pub sent: u64,
}

impl ReadBatching {
    /// Before a look; says whether the latest receive was from there too.
    #[inline(always)]
    pub fn pause<T>(&self, record: &T, place: impl FnOnce() -> StreamPoint) -> bool {
        if self.pauses.load(Ordering::Relaxed) > 0 {
            (0..self.pauses_at(place())).for_each(|_| std::hint::spin_loop());
        }
        self.from.load(Ordering::Relaxed) == std::ptr::from_ref(record) as usize
    }

    /// A receive with room for `len` bytes found `n` at its first look.
    #[inline]
    pub fn found(&self, place: StreamPoint, n: usize, len: usize) {
        self.note(place, n < ENOUGH && n < len);
    }

    /// It found nothing.
    #[inline]
    pub fn found_nothing(&self) {
        self.pauses.store(0, Ordering::Relaxed);
    }

    fn latest(&self) -> StreamPoint {
        StreamPoint {
            from: self.from.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
        }
    }

    fn pauses_at(&self, place: StreamPoint) -> u32 {
        match self.pauses.load(Ordering::Relaxed) {
            0 => 0,
            pauses if self.latest() == place => pauses,
            _ => 0,
        }
    }

    fn note(&self, place: StreamPoint, few: bool) {
        let pauses = self.pauses.load(Ordering::Relaxed);
        let next = match self.latest() == place {
            true if few => (pauses + 1).min(MOST_PAUSES),
            true => pauses / 2,
            false => 0,
        };
        self.pauses.store(next, Ordering::Relaxed);
        self.from.store(place.from, Ordering::Relaxed);
        self.sent.store(place.sent, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: StreamPoint = StreamPoint { from: 1, sent: 7 };

    fn after(receives: u32, few: bool) -> ReadBatching {
        let gather = ReadBatching::default();
        (0..receives).for_each(|_| gather.note(HERE, few));
        gather
    }

    #[test]
    fn a_stream_of_few_bytes_at_a_time_waits_longer_and_longer() {
        assert_eq!(after(1, true).pauses_at(HERE), 0);
        assert_eq!(after(3, true).pauses_at(HERE), 2);
        assert_eq!(after(1000, true).pauses_at(HERE), MOST_PAUSES);
        assert_eq!(after(1000, false).pauses_at(HERE), 0);
    }

    #[test]
    fn enough_bytes_halve_the_wait_and_none_end_it() {
        let gather = after(1000, true);
        gather.note(HERE, false);
        assert_eq!(gather.pauses_at(HERE), MOST_PAUSES / 2);
        gather.found_nothing();
        assert_eq!(gather.pauses_at(HERE), 0);
    }

    #[test]
    fn another_connection_and_an_answer_are_looked_at_at_once() {
        let gather = after(1000, true);
        for place in [
            StreamPoint { from: 2, ..HERE },
            StreamPoint { sent: 8, ..HERE },
        ] {
            assert_eq!(gather.pauses_at(place), 0);
        }
        gather.note(StreamPoint { sent: 8, ..HERE }, true);
        assert_eq!(gather.pauses_at(StreamPoint { sent: 8, ..HERE }), 0);
    }
}
