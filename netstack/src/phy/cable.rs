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

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1000);

    /// What arrives of so many frames of 100 bytes, sent a microsecond apart, and when.
    fn arrivals(conditions: Conditions, seed: u64, count: u64) -> Vec<(Instant, Vec<u8>)> {
        let mut cable = Cable::new(conditions, seed);
        for number in 0..count {
            let mut frame = [7; 100];
            frame[..8].copy_from_slice(&number.to_le_bytes());
            cable.send(START + Duration::from_micros(number), &frame);
        }
        let mut arrived = Vec::new();
        while let Some(at) = cable.next() {
            arrived.push((at, cable.take(at, Vec::new()).expect("it has arrived")));
        }
        arrived
    }

    fn numbers(arrived: &[(Instant, Vec<u8>)]) -> Vec<u64> {
        let number = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        arrived.iter().map(|(_, bytes)| number(bytes)).collect()
    }

    fn between(value: usize, least: usize, most: usize) {
        assert!((least..=most).contains(&value), "{value}");
    }

    #[test]
    fn a_perfect_one() {
        let arrived = arrivals(Conditions::default(), 1, 1000);
        assert_eq!(numbers(&arrived), (0..1000).collect::<Vec<_>>());
        assert!(arrived.iter().all(|(_, bytes)| bytes.len() == 100));
        assert_eq!(arrived[999].0, START + Duration::from_micros(999));
    }

    #[test]
    fn a_seed_is_a_cable() {
        let bad = || Conditions {
            jitter: Duration::from_micros(9),
            loss: 0.1,
            burst: 0.5,
            duplication: 0.1,
            corruption: 0.1,
            truncation: 0.1,
            detour: (0.1, Duration::from_millis(1)),
            ..Conditions::default()
        };
        assert_eq!(arrivals(bad(), 5, 1000), arrivals(bad(), 5, 1000));
        assert_ne!(arrivals(bad(), 5, 1000), arrivals(bad(), 6, 1000));
    }

    #[test]
    fn each_impairment_does_its_part() {
        let some = |change: fn(&mut Conditions)| {
            let mut conditions = Conditions::default();
            change(&mut conditions);
            arrivals(conditions, 9, 10_000)
        };
        between(some(|c| c.loss = 0.1).len(), 8800, 9200);
        between(some(|c| c.duplication = 0.1).len(), 10_800, 11_200);
        let corrupted = some(|c| c.corruption = 0.1);
        let changed = |(number, (_, bytes)): &(u64, (Instant, Vec<u8>))| {
            bytes[..8] != number.to_le_bytes() || bytes[8..] != [7; 92]
        };
        between((0..).zip(corrupted).filter(changed).count(), 800, 1200);
        let cut = some(|c| c.truncation = 0.1);
        between(
            cut.iter().filter(|(_, bytes)| bytes.len() < 100).count(),
            800,
            1200,
        );
        let late = numbers(&some(|c| c.detour = (0.1, Duration::from_millis(1))));
        between(
            late.windows(2).filter(|pair| pair[0] > pair[1]).count(),
            500,
            1200,
        );
        let jittered = numbers(&some(|c| c.jitter = Duration::from_micros(3)));
        assert!(!jittered.is_sorted());
    }

    #[test]
    fn losses_come_in_bursts() {
        let conditions = Conditions {
            loss: 0.01,
            burst: 0.9,
            ..Conditions::default()
        };
        let arrived = numbers(&arrivals(conditions, 3, 100_000));
        let holes = arrived
            .windows(2)
            .filter(|pair| pair[1] > pair[0] + 1)
            .count();
        let lost = 100_000 - arrived.len();
        between(lost / holes, 7, 13);
    }

    /// 124 bytes at 1 Gb/s take 992 ns: one frame per microsecond just passes, two do not.
    #[test]
    fn a_rate_is_kept() {
        let conditions = |rate| Conditions {
            rate: Some(rate),
            patience: Some(Duration::from_micros(50)),
            ..Conditions::default()
        };
        assert_eq!(arrivals(conditions(1_000_000_000), 1, 5000).len(), 5000);
        let arrived = arrivals(conditions(500_000_000), 1, 5000);
        between(arrived.len(), 2520, 2560);
        assert!(
            arrived
                .windows(2)
                .all(|pair| pair[1].0 - pair[0].0 >= Duration::from_nanos(1984))
        );
    }
}
