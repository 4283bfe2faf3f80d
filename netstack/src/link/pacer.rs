//! `[G5]` When the next packet may leave.

use crate::time::Instant;

/// Packets that may leave at once after a pause.
const BURST: u64 = 10;
/// Packets that leave besides, each time that nothing is in flight: a message of 16 KiB is 12 packets, and one
/// that is sent in two parts takes the peer's host twice. A stream, which always has some in flight, gets none.
const AFTER_NOTHING: u32 = 6;
/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    next: Instant,
    /// Packets that may leave without regard to the rate.
    free: u32,
}

impl Pacer {
    /// From when on a packet may leave.
    pub fn ready_at(&self) -> Instant {
        self.next
    }

    /// Nothing is in flight any more, and a packet is about to leave.
    #[inline]
    pub fn begin(&mut self) {
        self.free = AFTER_NOTHING;
    }

    /// A packet left, at a rate of so many bytes per second.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate: Option<u64>) {
        let Some(rate) = rate else {
            self.next = now;
            return;
        };
        if self.free > 0 {
            self.free -= 1;
            return;
        }
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

    /// So many leave before one has to wait.
    fn burst(pacer: &mut Pacer, now: Instant) -> u32 {
        let mut left = 0;
        while pacer.ready_at() <= now {
            pacer.on_sent(now, 1000, Some(1_000_000_000));
            left += 1;
        }
        left
    }

    // [G5]
    #[test]
    fn more_may_leave_when_nothing_is_in_flight() {
        let mut pacer = Pacer::default();
        let now = Instant::from_nanos(1_000_000_000);
        pacer.begin();
        assert_eq!(burst(&mut pacer, now), 17);
        // After a pause, with some in flight.
        assert_eq!(burst(&mut pacer, now + Duration::from_millis(1)), 11);
    }

    // [G5]
    #[test]
    fn a_burst_and_then_the_rate() {
        let mut pacer = Pacer::default();
        let mut now = Instant::from_nanos(1_000_000_000);
        assert_eq!(burst(&mut pacer, now), 11);
        let start = now;
        for _ in 0..1000 {
            now = now.max(pacer.ready_at());
            pacer.on_sent(now, 1000, Some(1_000_000_000));
        }
        assert_eq!(now - start, Duration::from_micros(1000));
    }
}
