//! Time that is cheap to ask for.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since some time before the start, hence never 0; as coarse as the kernel's tick.
pub fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + 1
}
