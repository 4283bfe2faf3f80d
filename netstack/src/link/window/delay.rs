//! `[G4]` How long packets may wait in queues on the way. Times are in nanoseconds.

/// Time in queues that is always allowed: some packets of other hosts, and the jitter of hosts.
const ALLOWANCE: u64 = 20_000;
/// More for small windows, in units of one over the root of the packets: among many senders each has
/// few packets, and even those few make a queue; and the larger of two windows gives way first.
const SMALL: u64 = 100_000;
/// The most that one round takes away, in thousandths, and how hard it pulls.
const MOST_TAKEN: u64 = 500;
const PULL: u64 = 800;

/// Queueing delay that a window of so many packets puts up with on a way of this length.
pub fn target(least: u64, packets: u64) -> u64 {
    let root = (packets.max(1) * 256).isqrt();
    ALLOWANCE + least / 8 + SMALL * 16 / root.max(1)
}

/// Bytes that are on a way of this length if a port of 10 Gb/s is busy.
pub fn port_bytes(least: u64) -> u64 {
    least * 5 / 4
}

/// The queue is as good as empty: there is more to be had.
#[inline]
pub fn is_quiet(delay: u64, target: u64) -> bool {
    delay * 4 <= target
}

/// It is, whatever the target.
#[inline]
pub fn is_always_quiet(delay: u64) -> bool {
    is_quiet(delay, ALLOWANCE)
}

/// Thousandths to give up in proportion to what is beyond the target.
pub fn reduction(delay: u64, target: u64, least: u64) -> u64 {
    let beyond = delay.saturating_sub(target);
    let trip = (least + delay).max(1);
    (beyond.saturating_mul(PULL) / trip).min(MOST_TAKEN)
}

#[cfg(test)]
mod tests {
    use super::{reduction, target};

    const US: u64 = 1000;

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
