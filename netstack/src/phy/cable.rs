//! One direction of a simulated cable, and everything that can go wrong on it. The same seed and the
//! same frames at the same times give the same arrivals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use std::vec::Vec;

use crate::time::Instant;

/// Bytes that each frame takes on the cable beside its own: preamble, checksum, gap.
const GAP: u64 = 24;

/// What a cable is like. The default is a perfect one.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    pub latency: Duration,
    /// Up to so much more, at random: frames overtake each other.
    pub jitter: Duration,
    /// Bits per second; `None` for no limit.
    pub rate: Option<u64>,
    /// How long a frame waits for the cable at most; later ones are lost. `None`: for ever.
    pub patience: Option<Duration>,
    pub loss: f64,
    /// Once one is lost, the next ones are, with this probability.
    pub burst: f64,
    pub duplication: f64,
    /// One bit is turned over.
    pub corruption: f64,
    /// The end is missing.
    pub truncation: f64,
    /// Some take so much longer, with this probability.
    pub detour: (f64, Duration),
}

/// xorshift64*
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

/// A frame on its way; the earliest, and of those the first, comes out first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Traveller {
    at: Instant,
    sequence: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct Cable {
    conditions: Conditions,
    random: Random,
    busy_until: Instant,
    sequence: u64,
    losing: bool,
    lost: u64,
    on_the_way: BinaryHeap<Reverse<Traveller>>,
    /// Buffers that have been used, for the next frames.
    spare: Vec<Vec<u8>>,
}

impl Cable {
    pub fn new(conditions: Conditions, seed: u64) -> Cable {
        Cable {
            conditions,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            busy_until: Instant::ZERO,
            sequence: 0,
            losing: false,
            lost: 0,
            on_the_way: BinaryHeap::new(),
            spare: Vec::new(),
        }
    }

    /// For frames that are sent from now on.
    pub fn change(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// When it can take another frame that need not wait.
    pub fn free_at(&self) -> Instant {
        self.busy_until
    }

    /// Frames that did not get through.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn send(&mut self, now: Instant, frame: &[u8]) {
        let start = self.busy_until.max(now);
        let impatient = self.conditions.patience;
        if impatient.is_some_and(|patience| start - now > patience) {
            self.lost += 1;
            return;
        }
        self.busy_until = start + self.time_of(frame.len());
        if self.loses() {
            self.lost += 1;
            return;
        }
        if self.random.chance(self.conditions.duplication) {
            self.launch(frame);
        }
        self.launch(frame);
    }

    /// How long a frame of this length keeps the cable busy.
    fn time_of(&self, length: usize) -> Duration {
        let Some(rate) = self.conditions.rate else {
            return Duration::ZERO;
        };
        let bits = (length as u64 + GAP) * 8;
        Duration::from_nanos(bits * 1_000_000_000 / rate.max(1))
    }

    fn loses(&mut self) -> bool {
        let Conditions { loss, burst, .. } = self.conditions;
        let probability = if self.losing && burst > 0.0 {
            burst
        } else {
            loss
        };
        self.losing = self.random.chance(probability);
        self.losing
    }

    fn launch(&mut self, frame: &[u8]) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame);
        if self.random.chance(self.conditions.truncation) {
            bytes.truncate(self.random.below(frame.len() as u64) as usize);
        }
        if self.random.chance(self.conditions.corruption) && !bytes.is_empty() {
            let bit = self.random.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let traveller = Traveller {
            at: self.arrival(),
            sequence: self.sequence,
            bytes,
        };
        self.sequence += 1;
        self.on_the_way.push(Reverse(traveller));
    }

    fn arrival(&mut self) -> Instant {
        let Conditions {
            latency,
            jitter,
            detour: (probability, longer),
            ..
        } = self.conditions;
        let jitter = Duration::from_nanos(self.random.below(jitter.as_nanos() as u64 + 1));
        let detour = match self.random.chance(probability) {
            true => longer,
            false => Duration::ZERO,
        };
        self.busy_until + latency + jitter + detour
    }

    /// When the next frame arrives.
    pub fn next(&self) -> Option<Instant> {
        self.on_the_way.peek().map(|Reverse(first)| first.at)
    }

    /// The next frame that has arrived, in exchange for the buffer of an earlier one.
    pub fn take(&mut self, now: Instant, used: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
        if self.next().is_none_or(|at| at > now) {
            return Err(used);
        }
        self.spare.push(used);
        match self.on_the_way.pop() {
            Some(Reverse(first)) => Ok(first.bytes),
            None => Err(Vec::new()),
        }
    }
}
