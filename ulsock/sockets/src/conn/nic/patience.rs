//! How long a call waits for a promotion to come about.
//!
//! Between neighbours that takes a fraction of a millisecond; between hosts that are slow, busy or far from each other it
//! takes tens, and who never waits so long never gets to the link. A wait in vain costs the program its time, though.
//! So the first ones are short, and where they were in vain the next is twice as long, while the connection goes on
//! by the kernel. Long ones are rationed: whatever its peers do, a process loses a small share of its time.
//!
//! Where more threads want a CPU than there are, each step of a promotion waits for its turn: the first wait is longer
//! by as many turns.
//!
//! A stream without answers has one try (`[F18]`: an end that has given up must read a byte before it can propose
//! again), so that one is long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::ration::Ration;
use crate::runtime::deadline::Deadline;
use crate::runtime::spinners::Spinners;
use crate::runtime::{process, thread};

const SHORTEST: Duration = Duration::from_millis(5);
/// In a process with other threads: on a crowded host the answer takes a few turns of the scheduler, and the next try
/// needs a moment when no thread is inside (see `conn/part`).
const CROWDED: Duration = Duration::from_millis(20);
/// Up to 160 ms: two hosts on different continents.
const MOST_DOUBLINGS: u32 = 5;
const LONGEST: Duration = doubled(MOST_DOUBLINGS);

os::process_wide! {
    /// What this process has seen of its peers.
    static PATIENCE: Patience = Patience::new();
}

struct Patience {
    /// Of the shortest wait.
    doublings: AtomicU32,
    /// Longer ones.
    long: Ration,
}

const fn doubled(times: u32) -> Duration {
    SHORTEST.saturating_mul(1 << times)
}

/// How many threads share a CPU of this host, right now.
fn threads_per_cpu() -> u32 {
    let cpus = process::spinners().map_or(1, Spinners::cpus).max(1);
    os::load::runnable().map_or(1, |count| count.div_ceil(cpus))
}

impl Patience {
    const fn new() -> Patience {
        Patience {
            doublings: AtomicU32::new(0),
            long: Ration::new(),
        }
    }

    fn allows_long_waits(&self, now: u64) -> bool {
        self.long.allows(now)
    }

    fn granted(&self, now: u64) -> Duration {
        match self.allows_long_waits(now) {
            true => doubled(self.doublings.load(Ordering::Relaxed)),
            false => SHORTEST,
        }
    }

    /// How long a call waits for which so much was granted: never less than a promotion takes among so many threads.
    fn stretched(
        &self,
        granted: Duration,
        alone: bool,
        threads_per_cpu: u32,
        now: u64,
    ) -> Duration {
        let turn = match alone {
            true => SHORTEST,
            false => CROWDED,
        };
        let turns = match self.allows_long_waits(now) {
            true => threads_per_cpu.max(1),
            false => 1,
        };
        granted.max(turn.saturating_mul(turns).min(LONGEST))
    }

    fn was_in_vain(&self, granted: Duration, waited: Duration, now: u64) {
        let doublings = self.doublings.load(Ordering::Relaxed);
        let lost = match waited > CROWDED {
            true => waited,
            false => granted,
        };
        if lost > SHORTEST {
            self.long.was_in_vain(lost, now);
        }
        if granted == doubled(doublings) && doublings < MOST_DOUBLINGS {
            self.doublings.store(doublings + 1, Ordering::Relaxed);
        }
    }

    fn came_after(&self, time: Duration) {
        let enough = (0..MOST_DOUBLINGS).find(|times| doubled(*times) >= 2 * time);
        let enough = enough.unwrap_or(MOST_DOUBLINGS);
        self.doublings.store(enough, Ordering::Relaxed);
    }
}

/// May somebody propose now for whom a short wait is not enough?
pub fn allows_long_waits() -> bool {
    PATIENCE.allows_long_waits(os::clock::coarse_ms())
}

/// A call that waits.
pub struct LinkWait {
    granted: Duration,
    most: Duration,
    deadline: Deadline,
}

impl LinkWait {
    /// `only`: there will be no other.
    pub fn begin(only: bool) -> LinkWait {
        let now = os::clock::coarse_ms();
        let granted = match only {
            true => LONGEST,
            false => PATIENCE.granted(now),
        };
        let most = PATIENCE.stretched(granted, thread::is_alone(), threads_per_cpu(), now);
        LinkWait {
            granted,
            most,
            deadline: Deadline::after(most),
        }
    }

    /// It has waited long enough, in vain.
    pub fn is_over(&self) -> bool {
        let over = self.deadline.passed();
        if over {
            PATIENCE.was_in_vain(self.granted, self.most, os::clock::coarse_ms());
        }
        over
    }

    /// What it waited for is there.
    pub fn has_come(&self) {
        let left = self.deadline.left().and_then(|left| left.try_into().ok());
        PATIENCE.came_after(self.most.saturating_sub(left.unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A promotion that takes so long, tried every 10 ms: when it comes about, and what the vain waits cost.
    fn promoted(patience: &Patience, takes: Duration, from: u64) -> Option<(u64, Duration)> {
        let (mut now, mut lost) = (from, Duration::ZERO);
        while now < from + 60_000 {
            if !patience.allows_long_waits(now) {
                now += 10;
                continue;
            }
            let granted = patience.granted(now);
            if granted >= takes {
                patience.came_after(takes);
                return Some((now - from, lost));
            }
            now += granted.as_millis() as u64;
            lost += granted;
            patience.was_in_vain(granted, granted, now);
            now += 10;
        }
        None
    }

    #[test]
    fn slow_peers_are_waited_for() {
        for takes in [1, 6, 12, 30, 70, 150] {
            let patience = Patience::new();
            let (after, lost) = promoted(&patience, ms(takes), 0).expect("a promotion");
            assert!(after < 40 * takes, "{takes} ms: after {after} ms");
            assert!(lost < 3 * ms(takes), "{takes} ms: lost {lost:?}");
        }
    }

    #[test]
    fn the_next_one_is_waited_for_at_once() {
        let patience = Patience::new();
        promoted(&patience, ms(30), 0).expect("a promotion");
        let again = promoted(&patience, ms(30), 100_000);
        assert_eq!(again, Some((0, Duration::ZERO)));
    }

    #[test]
    fn fast_peers_make_it_short_again() {
        let patience = Patience::new();
        promoted(&patience, ms(70), 0).expect("a promotion");
        patience.came_after(ms(1));
        assert_eq!(patience.granted(100_000), SHORTEST);
    }

    #[test]
    fn crowds_are_waited_for() {
        let patience = Patience::new();
        let stretched = |alone, threads| patience.stretched(SHORTEST, alone, threads, 0);
        assert_eq!(stretched(true, 1), SHORTEST);
        assert_eq!(stretched(false, 1), CROWDED);
        assert_eq!(stretched(true, 4), 4 * SHORTEST);
        assert_eq!(stretched(false, 4), 4 * CROWDED);
        assert_eq!(stretched(false, u32::MAX), LONGEST);
    }

    /// In vain: the next wait is no longer than on a host that is not crowded, until its ration allows it again.
    #[test]
    fn vain_waits_in_a_crowd_are_rationed() {
        let patience = Patience::new();
        patience.was_in_vain(SHORTEST, 4 * CROWDED, 0);
        assert_eq!(patience.stretched(SHORTEST, false, 4, 1_000), CROWDED);
        assert_eq!(patience.stretched(SHORTEST, false, 4, 2_000), 4 * CROWDED);
    }

    /// Peers that never agree: beyond the short waits, which each connection has for itself, a small share of the time.
    #[test]
    fn long_waits_are_rationed() {
        let patience = Patience::new();
        let (mut now, mut lost) = (0, Duration::ZERO);
        while now < 100_000 {
            let granted = patience.granted(now);
            assert!(granted <= ms(160));
            now += granted.as_millis() as u64;
            lost += granted - SHORTEST;
            patience.was_in_vain(granted, granted, now);
        }
        assert!(lost > ms(1_000) && lost < ms(100_000 / 15), "{lost:?}");
    }
}
