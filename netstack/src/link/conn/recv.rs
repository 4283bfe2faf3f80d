//! The direction that we receive: which bytes are there, and how much more may come.

use core::ops::Range;

use crate::link::spans::Spans;

/// `[C4]` Ranges of bytes that may lie out of order in the ring.
const ISLANDS: usize = 64;

/// `[K4]` Questions after which little room is told of, too.
const MOST_ASKED: u32 = 8;

/// What to do with bytes that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// These of them follow what is there, or lie beyond.
    Part(Range<u64>),
    /// All of them were there.
    Known,
    /// No room is left to remember them; they will come again.
    Full,
    /// `[C4]` `[C7]` No honest peer sends them.
    Forbidden,
}

#[derive(Debug)]
pub struct Receiving {
    placed: u64,
    islands: Spans,
    /// `[K1]` Up to here we have room.
    limit: u64,
    /// What the peer has last been told.
    told: u64,
    ring: u64,
    end: Option<u64>,
    /// The host has heard of the end.
    ended: bool,
    /// `[K5]` Questions since the peer was last told of more.
    asked: u32,
    /// `[K4]` CREDIT is owed as an answer, and for no other reason.
    only_asked: bool,
}

impl Receiving {
    pub fn new(from: u64, ring: u64) -> Receiving {
        Receiving {
            placed: from,
            islands: Spans::default(),
            limit: from.saturating_add(ring),
            told: from,
            ring,
            end: None,
            ended: false,
            asked: 0,
            only_asked: false,
        }
    }

    pub fn placed(&self) -> u64 {
        self.placed
    }

    /// Whether so many bytes can follow those that are there, with none beyond, and no end in sight.
    #[inline]
    pub fn has_room_behind(&self, bytes: u64) -> bool {
        self.islands.is_empty() && self.end.is_none() && bytes <= self.limit - self.placed
    }

    /// Those bytes are in the ring, and published.
    #[inline]
    pub fn append(&mut self, end: u64) {
        self.placed = end;
    }

    /// `[C4]`
    pub fn place(&self, bytes: Range<u64>) -> Placement {
        if bytes.end > self.limit || self.end.is_some_and(|end| bytes.end > end) {
            return Placement::Forbidden;
        }
        if bytes.end <= self.placed {
            return Placement::Known;
        }
        let part = bytes.start.max(self.placed)..bytes.end;
        let beyond = part.start > self.placed;
        if beyond && self.islands.count() >= ISLANDS && self.islands.would_grow(&part) {
            return Placement::Full;
        }
        Placement::Part(part)
    }

    /// How far everything would be there with these bytes.
    pub fn reach(&self, bytes: &Range<u64>) -> u64 {
        if bytes.start > self.placed {
            return self.placed;
        }
        let mut reach = bytes.end;
        // They may join several islands, having been cut into packets otherwise the first time.
        for island in self.islands.ascending() {
            if island.start > reach {
                break;
            }
            reach = reach.max(island.end);
        }
        reach
    }

    /// The bytes are in the ring, and published as far as `reach` says.
    #[inline]
    pub fn put(&mut self, bytes: Range<u64>) {
        if bytes.start > self.placed {
            return self.islands.add(bytes);
        }
        self.placed = self.reach(&bytes);
        while self
            .islands
            .first()
            .is_some_and(|island| island.start <= self.placed)
        {
            self.islands.drop_first();
        }
    }

    /// `[C7]` Whether the stream can end there.
    pub fn can_end_at(&self, end: u64) -> bool {
        let reached = self.islands.last().map_or(self.placed, |last| last.end);
        self.end.is_none_or(|known| known == end) && end >= reached && end <= self.limit
    }

    /// `[C7]` It does, and so it is published, if all bytes are there.
    pub fn end_at(&mut self, end: u64) {
        self.end = Some(end);
    }

    /// All bytes up to the end are there.
    pub fn is_over(&self) -> bool {
        self.ends_at(self.placed)
    }

    /// `[C7]` The stream ends there.
    pub fn ends_at(&self, offset: u64) -> bool {
        self.end == Some(offset)
    }

    /// The same, said once.
    pub fn ends_now(&mut self) -> bool {
        let now = self.is_over() && !self.ended;
        self.ended |= now;
        now
    }

    /// `[K1]` The reader has made room.
    pub fn make_room(&mut self, read: u64) {
        self.limit = self.limit.max(read.saturating_add(self.ring));
    }

    /// `[K3]` What the peer may send, said in a packet that leaves now.
    #[inline]
    pub fn tell(&mut self) -> u64 {
        self.told = self.limit;
        self.asked = 0;
        self.only_asked = false;
        self.limit
    }

    /// `[K4]` The same, but little room is not told of: the peer would fill it with little packets. Only
    /// one that asks again and again gets it: perhaps the reader waits for more before it reads on.
    pub fn tell_if_worthwhile(&mut self, packet: u64) -> u64 {
        if !self.only_asked || self.asked >= MOST_ASKED || self.should_tell(packet) {
            return self.tell();
        }
        self.told
    }

    /// `[K5]`
    pub fn asked(&mut self, owes_credit: bool) {
        self.asked += 1;
        self.only_asked |= !owes_credit;
    }

    /// `[R3]` A CREDIT was lost: the newest value goes.
    pub fn tell_again(&mut self) {
        self.only_asked = false;
    }

    /// `[K4]` The peer should hear of the room by itself: half of the ring, or a packet's worth for one
    /// that has used up all it had.
    #[inline]
    pub fn should_tell(&self, packet: u64) -> bool {
        let more = self.limit - self.told;
        let half = self.ring.div_ceil(2);
        let used_up = self.placed >= self.told;
        self.end.is_none() && more > 0 && (more >= half || used_up && more >= packet.min(half))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{ISLANDS, Placement, Receiving};

    proptest! {
        // [C4] [C5] What is published is what is placed, in whatever pieces the bytes come.
        #[test]
        fn bytes_join(pieces in prop::collection::vec((0u64..300, 1u64..40), 1..80)) {
            let mut recv = Receiving::new(10, 250);
            let mut model: BTreeSet<u64> = (0..10).collect();
            for (start, length) in pieces {
                let bytes = start..start + length;
                let part = match recv.place(bytes.clone()) {
                    Placement::Part(part) => {
                        prop_assert!(part.start >= recv.placed() && part.end == bytes.end);
                        part
                    }
                    Placement::Known => {
                        prop_assert!(bytes.clone().all(|byte| model.contains(&byte)));
                        continue;
                    }
                    Placement::Full => {
                        prop_assert!(recv.islands.count() == ISLANDS);
                        continue;
                    }
                    Placement::Forbidden => {
                        prop_assert!(bytes.end > 260);
                        continue;
                    }
                };
                let reach = recv.reach(&part);
                model.extend(part.clone());
                recv.put(part);
                prop_assert_eq!(recv.placed(), reach);
                prop_assert_eq!(recv.placed(), (0..).find(|byte| !model.contains(byte)).unwrap());
            }
        }
    }
}
