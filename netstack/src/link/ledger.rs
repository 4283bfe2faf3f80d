//! What is in flight on a path: for each packet number what it carried, until its fate is known.

use alloc::collections::VecDeque;
use core::ops::Range;

use super::Id;
use super::spans::Spans;
use crate::time::Instant;

/// What a packet carried, for the case that it has to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// So many bytes of a connection, from an offset on.
    Data { id: Id, offset: u64, length: u32 },
    /// What a connection owed.
    Owed { id: Id, what: super::conn::Owed },
    /// Only a question; of a size that is tried, if there is one.
    Ping { tried: Option<usize> },
}

#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub number: u64,
    pub at: Instant,
    /// Bytes that count as in flight.
    pub bytes: u32,
    pub content: Content,
}

/// Packets taken for lost are remembered for a while: perhaps they were only late.
const LOST: usize = 256;

#[derive(Debug, Default)]
pub struct Ledger {
    /// The number that the next packet gets.
    next: u64,
    /// Number of the first entry.
    first: u64,
    entries: VecDeque<Option<Sent>>,
    /// What is known to be received beyond the first entry, from `floor` on.
    beyond: Spans,
    floor: u64,
    /// In the order of their numbers.
    lost: VecDeque<Sent>,
    in_flight: u64,
}

impl Ledger {
    pub fn new(first: u64) -> Ledger {
        Ledger {
            next: first,
            first,
            ..Ledger::default()
        }
    }

    /// `[P1]` The next number, never used before.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Entries that are kept, settled or not: `[X2]`.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Nothing is under way.
    pub fn is_settled(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub fn sent(&mut self, at: Instant, bytes: usize, content: Content) {
        let bytes = bytes as u32;
        if self.entries.is_empty() {
            self.first = self.next;
        }
        self.entries.push_back(Some(Sent {
            number: self.next,
            at,
            bytes,
            content,
        }));
        self.in_flight += u64::from(bytes);
        self.next += 1;
    }

    #[inline]
    pub fn oldest(&self) -> Option<&Sent> {
        self.entries.front().and_then(Option::as_ref)
    }

    /// Whether these numbers begin with the oldest, and nothing was lost that they could also speak of.
    #[inline]
    pub fn is_next(&self, numbers: &Range<u64>) -> bool {
        numbers.start <= self.first && self.lost.is_empty()
    }

    /// Takes the oldest packet out if its number is below: it was received, as all before it.
    #[inline]
    pub fn take_below(&mut self, end: u64) -> Option<Sent> {
        while self.first < end {
            let entry = self.entries.pop_front()?;
            self.first += 1;
            if let Some(sent) = entry {
                self.in_flight -= u64::from(sent.bytes);
                return Some(sent);
            }
        }
        if !self.beyond.is_empty() {
            self.trim();
        }
        None
    }

    /// These numbers were received. `each` hears of those that were in flight, `late` of those that had
    /// been taken for lost.
    pub fn acknowledge(
        &mut self,
        numbers: Range<u64>,
        mut each: impl FnMut(&Sent),
        late: impl FnMut(&Sent),
    ) {
        if !self.lost.is_empty() {
            self.find_late(&numbers, late);
        }
        if numbers.start > self.first {
            return self.acknowledge_beyond(numbers, each);
        }
        while let Some(sent) = self.take_below(numbers.end) {
            each(&sent);
        }
    }

    /// The same for numbers that leave a gap.
    fn acknowledge_beyond(&mut self, numbers: Range<u64>, mut each: impl FnMut(&Sent)) {
        let Ledger {
            first,
            entries,
            beyond,
            in_flight,
            floor,
            ..
        } = self;
        // [X4] Numbers that are settled are not looked at again.
        beyond.insert(numbers.start.max(*floor)..numbers.end, |fresh| {
            for number in fresh {
                let entry = entries.get_mut((number - *first) as usize);
                if let Some(sent) = entry.and_then(Option::take) {
                    *in_flight -= u64::from(sent.bytes);
                    each(&sent);
                }
            }
        });
        // The peer keeps no more ranges than that: it will not speak of older ones.
        if beyond.count() > super::received::RANGES + 1
            && let Some(oldest) = beyond.drop_first()
        {
            *floor = oldest.end;
        }
    }

    fn find_late(&mut self, numbers: &Range<u64>, mut late: impl FnMut(&Sent)) {
        let lost = &mut self.lost;
        let at = lost.partition_point(|sent| sent.number < numbers.start);
        while lost.get(at).is_some_and(|sent| sent.number < numbers.end) {
            if let Some(sent) = lost.remove(at) {
                late(&sent);
            }
        }
    }

    /// Takes the oldest packet out as lost.
    pub fn lose_oldest(&mut self) -> Option<Sent> {
        let sent = self.entries.pop_front().flatten()?;
        self.first += 1;
        self.in_flight -= u64::from(sent.bytes);
        if self.lost.len() == LOST {
            self.lost.pop_front();
        }
        self.lost.push_back(sent);
        self.trim();
        Some(sent)
    }

    /// The oldest entry is always one whose fate is open.
    fn trim(&mut self) {
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
        while self
            .beyond
            .first()
            .is_some_and(|span| span.end <= self.first)
        {
            self.beyond.drop_first();
        }
    }
}
