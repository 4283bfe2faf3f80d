//! The round trip of a path: RFC 6298's estimate, without the time spent in the peer's host.

use core::time::Duration;

/// Before anything is known: a round trip inside a cluster, and then some.
const FIRST: u64 = 1_000_000;
/// An acknowledgement that the peer's host had for longer waited for an answer (`[P4]`).
const LONG_DELAY: u64 = 100_000;

/// All in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    smoothed: u64,
    variation: u64,
    least: Option<u64>,
    latest: u64,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt {
            smoothed: FIRST,
            variation: FIRST / 2,
            least: None,
            latest: FIRST,
        }
    }
}

impl Rtt {
    /// `[R1]` A packet was acknowledged after `passed`, of which the peer's host had it for `delay`; the
    /// rest, which counts, if it says anything.
    #[inline]
    pub fn sample(&mut self, passed: u64, delay: u64) -> Option<u64> {
        let Some(least) = self.least else {
            (self.smoothed, self.variation) = (passed, passed / 2);
            self.least = Some(passed);
            self.latest = passed;
            return Some(passed);
        };
        let least = least.min(passed);
        self.least = Some(least);
        // A delay that would make the trip shorter than any is a lie or a mistake.
        let sample = match passed.checked_sub(delay) {
            Some(rest) if rest >= least => rest,
            _ if delay > LONG_DELAY => return None,
            _ => passed,
        };
        self.variation = (self.variation * 3 + self.smoothed.abs_diff(sample)) / 4;
        self.smoothed = (self.smoothed * 7 + sample) / 8;
        self.latest = sample;
        Some(sample)
    }

    pub fn is_known(&self) -> bool {
        self.least.is_some()
    }

    #[inline]
    pub fn smoothed_nanos(&self) -> u64 {
        self.smoothed
    }

    pub fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed)
    }

    pub fn variation(&self) -> Duration {
        Duration::from_nanos(self.variation)
    }

    /// The shortest ever seen: what the way takes when no queue is on it.
    pub fn least(&self) -> Duration {
        Duration::from_nanos(self.least.unwrap_or(FIRST))
    }

    pub fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest)
    }

    /// How long an answer may take.
    #[inline]
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.smoothed + self.variation * 4)
    }

    /// `[R2]` How much later a later packet's acknowledgement may come before an earlier one is lost.
    #[inline]
    pub fn reordering(&self) -> Duration {
        let longest = self.smoothed.max(self.latest);
        Duration::from_nanos(longest + longest / 8)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::Rtt;

    const US: u64 = 1000;

    // [R1]
    #[test]
    fn the_hosts_delay_does_not_count_but_lies_do_not_either() {
        let mut rtt = Rtt::default();
        assert!(!rtt.is_known());
        assert_eq!(rtt.sample(100 * US, 50 * US), Some(100 * US));
        assert_eq!(rtt.sample(130 * US, 20 * US), Some(110 * US));
        assert_eq!(rtt.sample(130 * US, 90 * US), Some(130 * US));
        assert_eq!(rtt.least(), Duration::from_micros(100));
        assert_eq!(rtt.sample(130 * US, 100 * US), Some(130 * US));
        let before = rtt.smoothed();
        assert_eq!(rtt.sample(130 * US, 900 * US), None);
        assert_eq!(rtt.smoothed(), before);
        assert_eq!(rtt.sample(1030 * US, 900 * US), Some(130 * US));
        for _ in 0..100 {
            rtt.sample(200 * US, 0);
        }
        assert!(rtt.smoothed() > Duration::from_micros(199));
        assert!(rtt.variation() < Duration::from_micros(1));
    }
}
