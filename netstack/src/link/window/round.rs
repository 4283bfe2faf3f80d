//! One round trip after another: what the acknowledgements of each say together.

use super::Acked;
use crate::time::Instant;

/// What was seen since the round began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    began: Instant,
    /// The shortest round trip, in nanoseconds: bursts on the way do not count, only a queue that stays.
    pub shortest: Option<u64>,
    pub samples: u32,
    /// Packets that ECN can speak for, and those with a mark.
    pub packets: u32,
    pub marked: u32,
    /// `[G7]` The sender used more than half of the window.
    pub limited: bool,
}

impl Round {
    pub fn begin(now: Instant) -> Round {
        Round {
            began: now,
            ..Round::default()
        }
    }

    /// `true` if the round is over: something that was sent in it is acknowledged.
    pub fn add(&mut self, acked: &Acked<'_>) -> bool {
        if let Some(sample) = acked.sample {
            self.shortest = Some(self.shortest.map_or(sample, |least| least.min(sample)));
            self.samples += 1;
        }
        self.packets += acked.packets;
        self.marked += acked.marked;
        self.limited |= acked.limited;
        acked.sent >= self.began
    }
}
