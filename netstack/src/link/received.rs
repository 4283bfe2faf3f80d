//! Which numbers of a path have been received, and when the peer has to hear of it.

use core::ops::RangeInclusive;
use core::time::Duration;

use super::spans::Spans;
use crate::time::Instant;
use crate::wire::ack::{self, Marks, Report};
use crate::wire::frame::Ecn;

pub use crate::wire::ack::RANGES;

/// `[P4]` How long an acknowledgement waits for a packet to ride on.
pub const DELAY: Duration = Duration::from_micros(25);
/// `[P4]` Asking packets that are acknowledged together.
const TOGETHER: u32 = 2;
/// `[P4]` How long it waits for the answer of a program, in a host that sleeps meanwhile.
pub const RIDE: Duration = Duration::from_micros(1500);
/// `[P4]` Of the last 16 answers so many may have been later.
const LATE_ANSWERS: u32 = 2;
/// `[P4]` So many may wait for the answer of a program that they are for: a message of 64 KiB.
const MOST_LEFT: u32 = 48;

/// `[P3]` Of so many numbers the peer is told.
const NEWEST: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    New,
    /// Received before.
    Again,
    /// `[P2]` So old that it is not known any more whether it was.
    TooOld,
}

#[derive(Debug, Default)]
pub struct Received {
    numbers: Spans,
    /// The one after the largest.
    expected: u64,
    /// Everything below was received, or given up.
    floor: u64,
    /// Asking packets since the last acknowledgement.
    asking: u32,
    due: Option<Instant>,
    /// Something has come that the peer should hear of before anything else happens here.
    pressing: bool,
    /// When the first packet came of those since our own last asking packet.
    unanswered: Option<Instant>,
    /// Whether the last asking packets followed soon after such a packet, the latest in the lowest bit.
    answers: u16,
    /// An acknowledgement waits for longer than [`DELAY`].
    rides: bool,
    /// When the largest came.
    largest_at: Instant,
    marks: Marks,
}

impl Received {
    pub fn new(first: u64) -> Received {
        Received {
            expected: first,
            floor: first,
            ..Received::default()
        }
    }

    /// The number that should come next.
    #[inline]
    pub fn expected(&self) -> u64 {
        self.expected
    }

    #[inline]
    pub fn knows(&self, number: u64) -> Known {
        if number >= self.expected {
            Known::New
        } else {
            self.knew(number)
        }
    }

    fn knew(&self, number: u64) -> Known {
        if self.numbers.contains(number) {
            Known::Again
        } else if number < self.floor {
            Known::TooOld
        } else {
            Known::New
        }
    }

    /// `[P7]` A packet has done what it came for.
    #[inline(always)]
    pub fn note(&mut self, now: Instant, number: u64, ask: bool, ecn: Ecn) {
        // Older gaps do not count: numbers are never used again, so those of lost packets stay open.
        let in_order = number == self.expected;
        if number >= self.expected {
            self.expected = number + 1;
            self.largest_at = now;
        }
        self.numbers.add(number..number + 1);
        if !in_order {
            self.bound();
        }
        match ecn {
            Ecn::Capable => self.marks.capable = self.marks.capable.wrapping_add(1),
            Ecn::Congested => self.marks.congested = self.marks.congested.wrapping_add(1),
            Ecn::NotCapable | Ecn::Other => {}
        }
        self.asking += 1;
        self.unanswered = self.unanswered.or(Some(now));
        if ask && self.rides {
            // The peer does not wait for so long.
            self.answers = 0;
        }
        let pressing = ask || !in_order || ecn == Ecn::Congested;
        self.pressing |= pressing;
        let at_once = pressing || self.asking >= TOGETHER;
        self.owe(if at_once { now } else { now + DELAY });
    }

    /// `[P3]`
    fn bound(&mut self) {
        if self.numbers.count() > RANGES
            && let Some(oldest) = self.numbers.drop_first()
        {
            self.floor = oldest.end;
        }
    }

    /// `[P2]` Says again what was received: perhaps the acknowledgement was lost.
    pub fn again(&mut self, now: Instant) {
        if !self.numbers.is_empty() {
            self.pressing = true;
            self.owe(now);
        }
    }

    #[inline]
    fn owe(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When the peer has to hear of it.
    #[inline]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// `[P4]` Whether the peer has to hear of it before whoever waits for the bytes gets them. What has come in
    /// order, and just now, may ride on the answer.
    #[inline]
    pub fn is_pressing(&self, now: Instant) -> bool {
        self.pressing || self.asking > MOST_LEFT || self.due.is_some_and(|due| due < now)
    }

    /// An asking packet of ours leaves.
    #[inline]
    pub fn answer(&mut self, now: Instant) {
        if let Some(begin) = self.unanswered.take() {
            self.answers = self.answers << 1 | u16::from(now.since(begin) <= RIDE);
        }
    }

    /// `[P4]` The host is about to sleep: an acknowledgement that is owed is due now, or waits for the answer if that has
    /// come soon lately.
    pub fn hurry(&mut self, now: Instant) {
        let soon = self.answers.count_zeros() <= LATE_ANSWERS;
        let waits = soon && !self.pressing && self.asking < TOGETHER;
        let Some(due) = self.due else {
            return;
        };
        let until = self.unanswered.map(|begin| begin + RIDE);
        match until.filter(|until| waits && *until > now) {
            Some(until) => (self.due, self.rides) = (Some(until), true),
            None => self.due = Some(due.min(now)),
        }
    }

    /// Writes what was received behind a header that is about to leave.
    pub fn report(&mut self, now: Instant, path: u8, out: &mut [u8]) -> Option<ack::Written> {
        let report = Report {
            path,
            // [P5]
            delay_nanos: now.nanos_since(self.largest_at),
            marks: (self.marks != Marks::default()).then_some(self.marks),
        };
        if let Some(written) = self.report_one(&report, out) {
            self.settle();
            return Some(written);
        }
        // [P3] Gaps stay for ever; those that are old are settled, and would only make packets longer.
        let newest = self.expected;
        let ranges = self.numbers.descending();
        let ranges = ranges.take_while(|range| range.end + NEWEST >= newest);
        let inclusive =
            |range: core::ops::Range<u64>| -> RangeInclusive<u64> { range.start..=range.end - 1 };
        let written = ack::emit(out, &report, ranges.map(inclusive))?;
        self.settle();
        Some(written)
    }

    /// The peer hears of everything.
    #[inline]
    fn settle(&mut self) {
        (self.due, self.asking, self.pressing) = (None, 0, false);
        self.rides = false;
    }

    /// `[P3]` The same, if there is only one range to tell of: mostly nothing was lost lately.
    #[inline]
    fn report_one(&self, report: &Report, out: &mut [u8]) -> Option<ack::Written> {
        let newest = self.numbers.last()?;
        let older = self.numbers.last_but_one();
        if older.is_some_and(|older| older.end + NEWEST >= self.expected) {
            return None;
        }
        ack::emit_one(out, report, newest)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{DELAY, MOST_LEFT, RIDE, Received};
    use crate::time::Instant;
    use crate::wire::frame::Ecn;

    // [P4]
    #[test]
    fn every_second_packet_also_after_a_loss() {
        let now = Instant::from_nanos(1000);
        let mut received = Received::default();
        let mut waits = |number| {
            received.note(now, number, false, Ecn::NotCapable);
            let due = received.due();
            if due == Some(now) {
                received.report(now, 0, &mut [0; 200]).unwrap();
            }
            due
        };
        let later = Some(now + DELAY);
        assert_eq!([waits(0), waits(1)], [later, Some(now)]);
        // 2 is lost; its number stays open for ever.
        assert_eq!(
            [waits(3), waits(4), waits(5)],
            [Some(now), later, Some(now)]
        );
        // 6 was only late.
        assert_eq!(
            [waits(7), waits(6), waits(8)],
            [Some(now), Some(now), later]
        );
    }

    // [P4]
    #[test]
    fn a_mark_is_told_at_once() {
        let now = Instant::from_nanos(1000);
        for (ecn, due) in [(Ecn::Capable, now + DELAY), (Ecn::Congested, now)] {
            let mut received = Received::default();
            received.note(now, 0, false, ecn);
            assert_eq!(received.due(), Some(due));
        }
    }

    // [P4]
    #[test]
    fn what_comes_in_order_may_ride_on_the_answer() {
        let now = Instant::from_nanos(1000);
        let later = Instant::from_nanos(1001);
        let mut received = Received::default();
        let mut presses = |number, ask, ecn| {
            received.note(now, number, ask, ecn);
            let presses = [received.is_pressing(now), received.is_pressing(later)];
            if presses[0] {
                received.report(now, 0, &mut [0; 200]).unwrap();
                assert!(!received.is_pressing(later));
            }
            presses
        };
        // From the second one on it is due, but has not been for long.
        assert_eq!(presses(0, false, Ecn::Capable), [false, false]);
        for number in 1..u64::from(MOST_LEFT) {
            assert_eq!(presses(number, false, Ecn::Capable), [false, true]);
        }
        let next = u64::from(MOST_LEFT);
        assert_eq!(presses(next, false, Ecn::Capable), [true; 2], "enough");
        assert_eq!(presses(next + 2, false, Ecn::Capable), [true; 2], "a gap");
        assert_eq!(presses(next + 1, false, Ecn::Capable), [true; 2], "filled");
        assert_eq!(presses(next + 3, true, Ecn::Capable), [true; 2], "asked");
        assert_eq!(presses(next + 4, false, Ecn::Congested), [true; 2], "CE");
        received.again(now);
        assert!(received.is_pressing(now), "again");
    }

    // [P4]
    #[test]
    fn a_host_that_sleeps_acknowledges_before_or_with_an_answer_that_comes_soon() {
        let at = |us: u64| Instant::from_nanos(us * 1000);
        let mut received = Received::default();
        // The time of every answer, and when an acknowledgement is due for a host that sleeps.
        let mut due = |number: u64, answer: u64, ask: bool| {
            let now = at(number * 100_000);
            received.note(now, number, ask, Ecn::NotCapable);
            received.hurry(now + DELAY / 2);
            let due = received.due().expect("an acknowledgement");
            received.report(now, 0, &mut [0; 200]).unwrap();
            received.answer(now + Duration::from_micros(answer));
            due.nanos_since(now) / 1000
        };
        assert!(
            (0..14).all(|number| due(number, 100, false) <= 12),
            "at first"
        );
        assert!((14..30).all(|number| due(number, 1400, false) == 1500));
        assert_eq!(due(30, 100, true), 0, "one that asks");
        assert!((31..34).all(|number| due(number, 2000, false) == 1500));
        assert!((34..50).all(|number| due(number, 2000, false) <= 12));
    }

    // [P4]
    #[test]
    fn no_acknowledgement_waits_for_an_answer_if_the_peer_does_not() {
        let now = Instant::from_nanos(1000);
        let mut received = Received {
            answers: u16::MAX,
            ..Received::default()
        };
        received.note(now, 0, false, Ecn::NotCapable);
        received.hurry(now);
        assert_eq!(received.due(), Some(now + RIDE));
        received.note(now, 1, true, Ecn::NotCapable);
        assert_eq!(received.due(), Some(now));
        received.report(now, 0, &mut [0; 200]).unwrap();
        received.note(now, 2, false, Ecn::NotCapable);
        received.hurry(now);
        assert_eq!(received.due(), Some(now));
    }

    // [P3]
    #[test]
    fn old_gaps_make_no_acknowledgement_longer() {
        let now = Instant::from_nanos(1000);
        let mut received = Received::default();
        let mut length = |number| {
            received.note(now, number, false, Ecn::NotCapable);
            received.report(now, 0, &mut [0; 200]).unwrap().length
        };
        assert_eq!([length(0), length(2), length(4)], [12, 16, 20]);
        assert_eq!((5..514).map(&mut length).max(), Some(20));
        assert_eq!(
            (514..516).map(&mut length).collect::<alloc::vec::Vec<_>>(),
            [16, 12]
        );
    }
}
