//! The window for a network that others use too: it grows until a mark, a delay or a loss says that
//! there is a queue. Integers only, so that the same inputs give the same window everywhere.

use super::delay;
use super::floor::Floor;
use super::round::Round;
use super::{Acked, Lost, Window};
use crate::link::rtt::Rtt;
use crate::time::Instant;

/// Packets in the first window (RFC 6928), in the least, and in the largest.
const FIRST_WINDOW: u64 = 10;
const LEAST_WINDOW: u64 = 2;
const LARGEST_WINDOW: u64 = 1 << 20;
/// What a loss leaves, in thousandths: as with CUBIC (RFC 9438, 4.6) if there was a queue; if there was
/// none it was perhaps no congestion, and we give up less.
const AFTER_LOSS: u64 = 700;
const AFTER_QUIET_LOSS: u64 = 800;
/// Quiet rounds in a row after which the growth doubles with each more, up to this part
/// of what a fast port has on the way: the same for all, so that they become equal.
const QUIET: u32 = 32;
const STEEPEST: u64 = 64;
/// Slow start ends if so many samples of a round are all longer than the least by this, in nanoseconds.
const SAMPLES: u32 = 4;
const NOTICED: u64 = 10_000;
/// `[G3]` The share of marks is smoothed over so many rounds (RFC 8257, 3.3).
const MEMORY: u64 = 16;
const WHOLE: u64 = 1 << 16;

/// `[R6]` Rounds for which a reduction can be taken back.
const REGRET: u32 = 4;

/// What the last reduction took, for the case that it was a mistake.
#[derive(Clone, Copy, Debug)]
struct Before {
    size: u64,
    threshold: u64,
    /// Rounds for which it is kept.
    rounds: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Adaptive {
    packet: u64,
    size: u64,
    /// Below it is slow start.
    threshold: u64,
    /// Growth that has not made up a byte yet, in bytes times the size.
    growth: u64,
    round: Round,
    /// The queueing delay of the last whole round, in nanoseconds.
    delay: Option<u64>,
    /// Rounds in a row without any sign of a queue.
    quiet: u32,
    /// Smoothed share of marked packets, of `WHOLE`.
    marked: u64,
    floor: Floor,
    before: Option<Before>,
}

impl Default for Adaptive {
    fn default() -> Adaptive {
        Adaptive {
            packet: 0,
            size: 0,
            threshold: u64::MAX,
            growth: 0,
            round: Round::default(),
            delay: None,
            quiet: 0,
            marked: WHOLE,
            floor: Floor::default(),
            before: None,
        }
    }
}

impl Adaptive {
    pub fn new() -> Adaptive {
        Adaptive::default()
    }

    fn is_starting(&self) -> bool {
        self.size < self.threshold
    }

    fn target(&self) -> u64 {
        delay::target(self.floor.least(), self.size / self.packet.max(1))
    }

    pub(super) fn resize(&mut self, size: u64) {
        self.size = size.clamp(LEAST_WINDOW * self.packet, LARGEST_WINDOW * self.packet);
    }

    /// The size that is meant: while room is made for a queue to become empty, that from before.
    fn meant(&self) -> u64 {
        self.floor.size_after().unwrap_or(self.size)
    }

    fn set_meant(&mut self, size: u64) {
        if !self.floor.set_size_after(size) {
            self.resize(size);
        }
    }

    /// Leaves so many thousandths.
    fn reduce(&mut self, thousandths: u64) {
        self.set_meant(self.meant() * thousandths / 1000);
        self.threshold = self.size;
        self.quiet = 0;
    }

    fn remember(&mut self) {
        self.before = Some(Before {
            size: self.meant(),
            threshold: self.threshold,
            rounds: REGRET,
        });
    }

    fn forget(&mut self) {
        self.before = self.before.and_then(|before| {
            let rounds = before.rounds.checked_sub(1)?;
            Some(Before { rounds, ..before })
        });
    }

    /// Bytes by which a round without a queue makes the window larger: a packet, as with Reno; more
    /// where nobody has been in the way for a while.
    fn step(&self) -> u64 {
        let doublings = self.quiet.saturating_sub(QUIET).min(20);
        let steepest = delay::port_bytes(self.floor.least()) / STEEPEST;
        (self.packet << doublings).min(steepest.max(self.packet))
    }

    /// `[G9]`
    fn grow(&mut self, bytes: u64) {
        if self.is_starting() {
            self.resize((self.size + bytes).min(self.threshold));
            return;
        }
        self.growth += self.step() * bytes;
        let more = self.growth / self.size.max(1);
        self.growth %= self.size.max(1);
        self.resize(self.size + more);
    }

    /// `[G9]` A queue begins while we double: enough (in the manner of HyStart, RFC 9406).
    fn check_start(&mut self) {
        let least = self.floor.least();
        let longer = |shortest: u64| shortest > least + NOTICED.max(least / 8);
        if self.is_starting()
            && self.round.samples >= SAMPLES
            && self.round.shortest.is_some_and(longer)
        {
            self.threshold = self.size;
        }
    }

    fn end_round(&mut self, now: Instant) {
        let round = core::mem::replace(&mut self.round, Round::begin(now));
        self.forget();
        let marks = self.count_marks(&round);
        let cleared = self.floor.on_round(self.size, round.shortest);
        if let Some(size) = cleared {
            self.resize(size);
            self.threshold = self.size;
        }
        if cleared.is_some() || self.floor.is_clearing() {
            return;
        }
        let least = self.floor.least();
        let delay = round
            .shortest
            .map(|shortest| shortest.saturating_sub(least));
        self.delay = delay;
        // [G3] [G4]
        let (quiet, delayed) = match delay {
            Some(delay) if delay::is_always_quiet(delay) => (marks == 0, 0),
            Some(delay) => {
                let target = self.target();
                let quiet = marks == 0 && delay::is_quiet(delay, target);
                (quiet, delay::reduction(delay, target, least))
            }
            None => (false, 0),
        };
        let less = delayed.max(marks);
        if less > 0 {
            self.reduce(1000 - less);
        } else if quiet && round.limited {
            self.quiet = self.quiet.saturating_add(1);
        } else {
            self.quiet = 0;
        }
    }

    /// `[G3]` Thousandths that the marks of a round take (RFC 8257, 3.3).
    fn count_marks(&mut self, round: &Round) -> u64 {
        if round.packets == 0 {
            return 0;
        }
        let share = u64::from(round.marked.min(round.packets)) * WHOLE / u64::from(round.packets);
        self.marked = self.marked - self.marked / MEMORY + share / MEMORY;
        match share {
            0 => 0,
            _ => (self.marked * 500 / WHOLE).max(1),
        }
    }
}

impl Window for Adaptive {
    fn size(&self) -> u64 {
        self.size
    }

    fn set_packet(&mut self, bytes: u64) {
        if self.packet == 0 {
            self.size = FIRST_WINDOW * bytes;
        }
        self.packet = bytes;
        self.resize(self.size);
    }

    fn on_ack(&mut self, acked: &Acked<'_>) {
        if let Some(sample) = acked.sample {
            self.floor.sample(sample);
        }
        let over = self.round.add(acked);
        self.check_start();
        // [G7]
        if self.round.limited && !self.floor.is_clearing() {
            self.grow(acked.bytes);
        }
        if over {
            self.end_round(acked.now);
        }
    }

    /// `[G2]` The path sees to it that it is once per round trip.
    fn on_loss(&mut self, lost: &Lost<'_>) {
        self.remember();
        let quiet = |delay| delay::is_quiet(delay, self.target());
        let left = match self.delay.is_some_and(quiet) {
            true => AFTER_QUIET_LOSS,
            false => AFTER_LOSS,
        };
        self.reduce(left);
        // What was sent before the reduction says nothing about what it has done.
        self.round = Round::begin(lost.now);
    }

    fn on_spurious(&mut self, _: Instant) {
        if let Some(before) = self.before.take() {
            self.set_meant(self.meant().max(before.size));
            self.threshold = before.threshold;
        }
    }

    fn on_silence(&mut self, now: Instant) {
        self.remember();
        self.floor.stop_clearing();
        let half = self.before.map_or(0, |before| before.size / 2);
        self.resize(0);
        self.threshold = half.max(self.size);
        self.quiet = 0;
        self.round = Round::begin(now);
    }

    fn rate(&self, rtt: &Rtt) -> Option<u64> {
        if !rtt.is_known() {
            return None;
        }
        // [G5] In quarters.
        let faster = if self.is_starting() { 8 } else { 5 };
        let nanos = rtt.smoothed_nanos().max(1);
        // More than so many GB no port has on the way.
        let quarters = self.size.saturating_mul(faster * 250_000_000);
        Some(quarters / nanos)
    }
}
