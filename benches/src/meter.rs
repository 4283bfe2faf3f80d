//! Counts what a stream brings, and what is printed of it.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Bytes between two looks at the clock: 25 ns each would show at 64 B messages.
pub const CLOCK_EVERY: u64 = 64 << 10;

/// The receiver's count, sent back to the sender.
#[derive(Serialize, Deserialize)]
pub struct Count {
    pub bytes: u64,
    pub seconds: f64,
}

/// What the sender prints.
#[derive(Serialize)]
pub struct Line {
    messages: u64,
    bytes: u64,
    seconds: f64,
    messages_per_s: f64,
    bytes_per_s: f64,
    /// Messages with those before and after the measurement.
    total_messages: u64,
}

impl Line {
    pub fn new(count: &Count, size: u64, total_messages: u64) -> Line {
        let messages = count.bytes / size;
        Line {
            messages,
            bytes: count.bytes,
            seconds: count.seconds,
            messages_per_s: messages as f64 / count.seconds,
            bytes_per_s: count.bytes as f64 / count.seconds,
            total_messages,
        }
    }
}

/// Counts bytes, from the end of the warm-up until time is over.
pub struct Meter {
    warm_up: Duration,
    length: Duration,
    begun: Instant,
    phase: Phase,
    bytes: u64,
    next_look: u64,
}

#[derive(Clone, Copy)]
enum Phase {
    WarmUp,
    /// Since when, and how many bytes had come by then.
    Measurement(Instant, u64),
    Over,
}

impl Meter {
    pub fn new(warm_up: Duration, length: Duration) -> Meter {
        Meter {
            warm_up,
            length,
            begun: Instant::now(),
            phase: Phase::WarmUp,
            bytes: 0,
            next_look: 0,
        }
    }

    /// Returns the count, once.
    pub fn add(&mut self, bytes: u64) -> Option<Count> {
        self.bytes += bytes;
        if self.bytes < self.next_look {
            return None;
        }
        self.next_look = self.bytes + CLOCK_EVERY;
        self.look(Instant::now())
    }

    fn look(&mut self, now: Instant) -> Option<Count> {
        match self.phase {
            Phase::WarmUp if now - self.begun >= self.warm_up => {
                self.phase = Phase::Measurement(now, self.bytes);
                None
            }
            Phase::Measurement(since, before) if now - since >= self.length => {
                self.phase = Phase::Over;
                Some(Count {
                    bytes: self.bytes - before,
                    seconds: (now - since).as_secs_f64(),
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Bytes come at these seconds, in large pieces; what is counted of them.
    fn counted(at: &[u32]) -> Vec<(u64, f64)> {
        let mut meter = Meter::new(SECOND, 2 * SECOND);
        let begun = meter.begun;
        let mut look = |second: &u32| {
            meter.bytes += 1000;
            let count = meter.look(begun + *second * SECOND)?;
            Some((count.bytes, count.seconds))
        };
        at.iter().filter_map(&mut look).collect()
    }

    #[test]
    fn counts_what_comes_after_the_warm_up_and_once() {
        assert_eq!(counted(&[0, 1, 2, 3, 4, 5]), [(2000, 2.0)]);
    }

    #[test]
    fn who_is_late_has_its_time_nevertheless() {
        assert_eq!(counted(&[0, 90, 91, 99]), [(2000, 9.0)]);
        assert_eq!(counted(&[90]), []);
    }
}
