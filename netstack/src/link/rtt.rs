//! The round trip of a path: RFC 6298's estimate, without the time spent in the peer's host.

use core::time::Duration;

/// Before anything is known: a round trip inside a cluster, and then some.
const FIRST: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    smoothed: Duration,
    variation: Duration,
    least: Option<Duration>,
    latest: Duration,
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
    /// [R1] A packet was acknowledged after `passed`, of which the peer's host had it for `delay`.
    pub fn sample(&mut self, passed: Duration, delay: Duration) -> Duration {
        let Some(least) = self.least else {
            (self.smoothed, self.variation) = (passed, passed / 2);
            self.least = Some(passed);
            self.latest = passed;
            return passed;
        };
        let least = least.min(passed);
        self.least = Some(least);
        // A delay that would make the trip shorter than any is a lie or a mistake.
        let sample = passed.checked_sub(delay).filter(|&rest| rest >= least);
        let sample = sample.unwrap_or(passed);
        self.variation = (self.variation * 3 + self.smoothed.abs_diff(sample)) / 4;
        self.smoothed = (self.smoothed * 7 + sample) / 8;
        self.latest = sample;
        sample
    }

    pub fn is_known(&self) -> bool {
        self.least.is_some()
    }

    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    pub fn variation(&self) -> Duration {
        self.variation
    }

    /// The shortest ever seen: what the way takes when no queue is on it.
    pub fn least(&self) -> Duration {
        self.least.unwrap_or(FIRST)
    }

    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// [R2] How much later a later packet's acknowledgement may come before an earlier one is lost.
    pub fn reordering(&self) -> Duration {
        let longest = self.smoothed.max(self.latest);
        longest + longest / 8
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::Rtt;

    const US: Duration = Duration::from_micros(1);

    // [R1]
    #[test]
    fn the_hosts_delay_does_not_count_but_lies_do_not_either() {
        let mut rtt = Rtt::default();
        assert!(!rtt.is_known());
        assert_eq!(rtt.sample(100 * US, 50 * US), 100 * US);
        assert_eq!(rtt.sample(130 * US, 20 * US), 110 * US);
        assert_eq!(rtt.sample(130 * US, 90 * US), 130 * US);
        assert_eq!(rtt.least(), 100 * US);
        assert_eq!(rtt.sample(130 * US, 900 * US), 130 * US);
        for _ in 0..100 {
            rtt.sample(200 * US, Duration::ZERO);
        }
        assert!(rtt.smoothed() > 199 * US && rtt.variation() < US);
    }
}
