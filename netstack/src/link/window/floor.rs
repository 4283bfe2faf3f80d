//! `[G8]` How short the way is without a queue, as seen lately.
//!
//! A standing queue hides it: a link that came later takes the queue's delay for the way's own, and would
//! push aside those that know better. So a link that has not seen the shortest for a while makes room for
//! the queue to become empty, and believes what it sees then. All links that share the queue saw it at its
//! lowest at the same time: so they make room together, and see the same. If somebody else keeps the
//! queue full all the same, its delay counts as the way's own from then on, and we do not give way to
//! a sender that never does.

/// Rounds after which what was seen is too old. The same for all, so that they stay together.
const ROUNDS_REMEMBERED: u32 = 48;
/// A large packet takes so much longer than a small one, in nanoseconds.
const NOISE: u64 = 1500;
/// Rounds for which room is made: one for the links that begin first, one for those that begin last.
const CLEARING_ROUNDS: u32 = 2;

/// Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Floor {
    least: Option<u64>,
    /// Rounds since it was seen.
    age: u32,
    /// The largest size of the window since then: before we gave way.
    size: u64,
    clearing: Option<Clearing>,
}

/// Room is made for the queue to become empty.
#[derive(Clone, Copy, Debug)]
struct Clearing {
    rounds: u32,
    /// The window's size before, to which it returns.
    size: u64,
    shortest: Option<u64>,
}

impl Floor {
    /// The way without a queue.
    pub fn least(&self) -> u64 {
        self.least.unwrap_or_default()
    }

    pub fn is_clearing(&self) -> bool {
        self.clearing.is_some()
    }

    pub fn sample(&mut self, sample: u64) {
        let least = self.least.map_or(sample, |least| least.min(sample));
        self.least = Some(least);
        if sample <= least + least / 64 + NOISE {
            (self.age, self.size) = (0, 0);
        }
    }

    /// A round is over; the size that the window gets, if that is a matter of ours.
    pub fn on_round(&mut self, size: u64, shortest: Option<u64>) -> Option<u64> {
        if let Some(clearing) = &mut self.clearing {
            clearing.shortest = shorter(clearing.shortest, shortest);
            clearing.rounds -= 1;
            return (clearing.rounds == 0).then(|| self.finish()).flatten();
        }
        self.age += 1;
        self.size = self.size.max(size);
        if self.age <= ROUNDS_REMEMBERED {
            return None;
        }
        self.clearing = Some(Clearing {
            rounds: CLEARING_ROUNDS,
            size,
            shortest: None,
        });
        let trip = u128::from(shortest.unwrap_or_default().max(self.least()));
        let part = u128::from(size) * u128::from(self.least()) / (2 * trip.max(1));
        Some(part as u64)
    }

    /// Believes what was seen; the size to return to.
    fn finish(&mut self) -> Option<u64> {
        let clearing = self.clearing.take()?;
        let old = self.least();
        let new = clearing.shortest.unwrap_or(old);
        // If it is longer now we gave way in vain, to a sender that does not.
        let in_vain = new > old + old / 8;
        let size = match in_vain {
            true => clearing.size.max(self.size / 2),
            false => clearing.size,
        };
        (self.least, self.age, self.size) = (Some(new), 0, 0);
        Some(size)
    }

    /// The size to which the window returns, while room is made.
    pub fn size_after(&self) -> Option<u64> {
        self.clearing.map(|clearing| clearing.size)
    }

    /// `false` if no room is being made.
    pub fn set_size_after(&mut self, size: u64) -> bool {
        if let Some(clearing) = &mut self.clearing {
            clearing.size = size;
        }
        self.clearing.is_some()
    }

    pub fn stop_clearing(&mut self) {
        self.clearing = None;
    }
}

fn shorter(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
