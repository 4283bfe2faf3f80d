//! [G4] How long packets may wait in queues on the way.

use core::time::Duration;

/// Time in queues that is always allowed: some packets of other hosts, and the jitter of hosts.
const ALLOWANCE: Duration = Duration::from_micros(20);
/// More for small windows, in units of one over the root of the packets: among many senders each has
/// few packets, and even those few make a queue; and the larger of two windows gives way first.
const SMALL: Duration = Duration::from_micros(100);
/// The most that one round takes away, in thousandths, and how hard it pulls.
const MOST: u64 = 500;
const PULL: u64 = 800;

/// Queueing delay that a window of so many packets puts up with on a way of this length.
pub fn target(least: Duration, packets: u64) -> Duration {
    let root = (packets.max(1) * 256).isqrt() as u32;
    ALLOWANCE + least / 8 + SMALL * 16 / root.max(1)
}

/// Bytes that are on a way of this length if a port of 10 Gb/s is busy.
pub fn port_bytes(least: Duration) -> u64 {
    least.as_nanos() as u64 * 5 / 4
}

/// The queue is as good as empty: there is more to be had.
pub fn is_quiet(delay: Duration, target: Duration) -> bool {
    delay * 4 <= target
}

/// Thousandths to give up in proportion to what is beyond the target.
pub fn reduction(delay: Duration, target: Duration, least: Duration) -> u64 {
    let beyond = delay.saturating_sub(target).as_nanos() as u64;
    let trip = (least + delay).as_nanos().max(1) as u64;
    (beyond.saturating_mul(PULL) / trip).min(MOST)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{reduction, target};

    const US: Duration = Duration::from_micros(1);

    // [G4]
    #[test]
    fn in_proportion_and_never_more_than_half() {
        let target = target(80 * US, 100);
        assert_eq!(target, 40 * US);
        assert_eq!(reduction(40 * US, target, 80 * US), 0);
        assert_eq!(reduction(50 * US, target, 80 * US), 61);
        assert_eq!(reduction(10_000 * US, target, 80 * US), 500);
    }

    // [G4]
    #[test]
    fn small_windows_put_up_with_more() {
        assert!(target(10 * US, 2) > target(10 * US, 10) + 30 * US);
        assert!(target(1000 * US, 1000) < 150 * US);
    }
}
