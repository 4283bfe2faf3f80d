//! How much of its time a process spends on waits for peers that may never answer: whatever they do, a small share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// After a wait in vain come so many times its time without another.
const SHARE: u32 = 16;

/// Waits of one kind, of all connections of this process.
pub struct Ration {
    /// Before this time, in ms, nobody waits.
    next: AtomicU64,
}

impl Ration {
    pub const fn new() -> Ration {
        Ration {
            next: AtomicU64::new(0),
        }
    }

    pub fn allows(&self, now: u64) -> bool {
        now >= self.next.load(Ordering::Relaxed)
    }

    /// Somebody has waited so long until now, for nothing.
    pub fn was_in_vain(&self, wait: Duration, now: u64) {
        let pause = (wait * SHARE).as_millis() as u64;
        self.next.store(now + pause, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_vain_take_a_small_share_of_the_time() {
        const WAIT: u64 = 200;
        let ration = Ration::new();
        let (mut now, mut lost) = (1, 0);
        while now < 1_000_000 {
            if ration.allows(now) {
                now += WAIT;
                lost += WAIT;
                ration.was_in_vain(Duration::from_millis(WAIT), now);
            }
            now += 1;
        }
        assert!(lost > 0 && lost <= now / 16, "{lost} of {now} ms");
    }
}
