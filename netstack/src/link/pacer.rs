//! `[G5]` When the next packet may leave.

use crate::time::Instant;

/// Packets that may leave at once after a pause.
const BURST: u64 = 10;
/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    next: Instant,
}

impl Pacer {
    /// From when on a packet may leave.
    pub fn ready_at(&self) -> Instant {
        self.next
    }

    /// A packet left, at a rate of so many bytes per second.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate: Option<u64>) {
        let Some(rate) = rate else {
            self.next = now;
            return;
        };
        // Packets are so short that this never saturates.
        let nanos = bytes.saturating_mul(SECOND) / rate.max(1);
        let takes = nanos.min(SECOND);
        let saved = now.as_nanos().saturating_sub(takes * BURST);
        let next = self.next.as_nanos().max(saved).saturating_add(takes);
        self.next = Instant::from_nanos(next);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::Pacer;
    use crate::time::Instant;

    // [G5]
    #[test]
    fn a_burst_and_then_the_rate() {
        let mut pacer = Pacer::default();
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut left = 0;
        while pacer.ready_at() <= now {
            pacer.on_sent(now, 1000, Some(1_000_000_000));
            left += 1;
        }
        assert_eq!(left, 11);
        let start = now;
        for _ in 0..1000 {
            now = now.max(pacer.ready_at());
            pacer.on_sent(now, 1000, Some(1_000_000_000));
        }
        assert_eq!(now - start, Duration::from_micros(1000));
    }
}
