//! Waiting for another thread to let go of a short lock.

use std::time::Duration;

/// Yields at first, then naps: on a crowded machine the owner gets its turn only when the waiters
/// stop running, and under real-time scheduling a yield never lets a lesser thread run.
#[derive(Default)]
pub struct Backoff {
    rounds: u32,
}

const YIELDS: u32 = 100;
const NAP: Duration = Duration::from_micros(50);

impl Backoff {
    pub fn pause(&mut self) {
        self.rounds += 1;
        if self.rounds <= YIELDS {
            return rustix::thread::sched_yield();
        }
        if let Ok(nap) = NAP.try_into() {
            let _ = rustix::thread::nanosleep(&nap);
        }
    }
}
