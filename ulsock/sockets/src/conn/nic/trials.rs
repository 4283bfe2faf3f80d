//! When a process tries the link, for as long as it does not know whether that is faster than the kernel.
//!
//! One connection tries it for all. If it was slower none tries again for a while, twice as long each time; once it
//! was faster all may, and the next defeat counts as the first. So long as the link is faster each time that the two
//! are compared, the time to the next comparison doubles, too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Milliseconds until the process tries again.
const FIRST_PAUSE: u64 = 1_000;
/// The other end is shown to its daemon for a minute.
const LONGEST_PAUSE: u64 = 32_000;
/// And how long one that was faster stays on the link before the kernel is measured again.
const FIRST_TERM: u64 = 2_000;
const LONGEST_TERM: u64 = 64_000;
/// A connection that tries has so many before another may.
const TRIAL: u64 = 1_000;

os::process_wide! {
    /// Those of this process.
    pub static TRIALS: Trials = Trials::new();
}

pub struct Trials {
    /// The link was faster, when a connection last measured it.
    faster: AtomicBool,
    /// Otherwise, before this time none tries it; and the last pause after a defeat.
    next: AtomicU64,
    pause: AtomicU64,
    /// The last term after a success.
    term: AtomicU64,
}

impl Trials {
    const fn new() -> Trials {
        Trials {
            faster: AtomicBool::new(false),
            next: AtomicU64::new(0),
            pause: AtomicU64::new(0),
            term: AtomicU64::new(0),
        }
    }

    /// May a connection try it now? Then it is the only one for a while.
    pub fn may_try(&self, now: u64) -> bool {
        if self.faster.load(Ordering::Relaxed) {
            return true;
        }
        let next = self.next.load(Ordering::Relaxed);
        let order = Ordering::Relaxed;
        let taken = || {
            self.next
                .compare_exchange(next, now + TRIAL, order, order)
                .is_ok()
        };
        now >= next && taken()
    }

    /// When that is to be doubted.
    pub fn was_faster(&self, now: u64) -> u64 {
        let term = (2 * self.term.load(Ordering::Relaxed)).clamp(FIRST_TERM, LONGEST_TERM);
        self.term.store(term, Ordering::Relaxed);
        self.pause.store(0, Ordering::Relaxed);
        self.faster.store(true, Ordering::Relaxed);
        now + term
    }

    pub fn was_slower(&self, now: u64) {
        let pause = (2 * self.pause.load(Ordering::Relaxed)).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.pause.store(pause, Ordering::Relaxed);
        self.term.store(0, Ordering::Relaxed);
        self.faster.store(false, Ordering::Relaxed);
        self.next.store(now + pause, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loses at this time: how long until one may try again.
    fn pause_after(trials: &Trials, now: u64) -> u64 {
        trials.was_slower(now);
        let tries = |after: &u64| trials.may_try(now + after);
        (0..200_000).find(tries).expect("another try")
    }

    #[test]
    fn one_tries_for_all() {
        let trials = Trials::new();
        assert!(trials.may_try(5_000));
        assert!(!trials.may_try(5_000 + TRIAL - 1));
        // It may have ended before it had measured anything.
        assert!(trials.may_try(5_000 + TRIAL));
        trials.was_faster(5_000);
        assert!(trials.may_try(5_000 + TRIAL) && trials.may_try(5_000 + TRIAL));
    }

    #[test]
    fn each_defeat_doubles_the_pause() {
        let trials = Trials::new();
        let mut now = 0;
        let pauses = [(); 7].map(|()| {
            let pause = pause_after(&trials, now);
            now += pause;
            pause / 1_000
        });
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32]);
    }

    #[test]
    fn after_a_success_it_begins_anew() {
        let trials = Trials::new();
        for now in [0, 10_000, 20_000] {
            trials.was_slower(now);
        }
        trials.was_faster(20_000);
        assert!(trials.may_try(20_000));
        assert_eq!(pause_after(&trials, 30_000), FIRST_PAUSE);
    }

    #[test]
    fn each_success_doubles_the_term() {
        let trials = Trials::new();
        let terms = [(); 7].map(|()| trials.was_faster(0) / 1_000);
        assert_eq!(terms, [2, 4, 8, 16, 32, 64, 64]);
        trials.was_slower(0);
        assert_eq!(trials.was_faster(0), FIRST_TERM);
    }
}
