//! What a waiter learns from its waits, and ways to wait awake.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::{faults, guarded};

/// What a waiter knows about its waits.
#[derive(Default)]
pub struct History {
    /// Spins that failed in a row.
    failures: AtomicU32,
    waits: AtomicU32,
    /// Pauses before the first look.
    pub pauses: AtomicU32,
    /// When the last wait began, in nanoseconds, if the waiter keeps a rhythm.
    began: AtomicU64,
    /// Who waits for several peers: messages to come from other CPUs before it spins again.
    near: AtomicU32,
    /// It may touch the table of those who spin, as far as it has asked.
    counts: AtomicBool,
}

/// A waiter that has given up spinning tries again once in so many waits.
const RETRY: u32 = 64;
/// Failures in a row after which spinning stops.
const GIVE_UP: u32 = 8;
/// The shortest spin, in microseconds: long enough for the answer of a peer that spins too, or else two
/// that have given up would not find back to spinning.
const LEAST: u32 = 6;
/// So many messages in a row from other CPUs show that those who send run elsewhere.
const APART: u32 = 16;

impl History {
    /// The time to spin in this wait.
    pub fn budget(&self, most: u32) -> Duration {
        let failures = self.failures.load(Ordering::Relaxed);
        let wait = self.begin_wait();
        if failures >= GIVE_UP && !wait.is_multiple_of(RETRY) {
            return Duration::ZERO;
        }
        let us = most >> failures.min(3);
        Duration::from_micros(us.max(LEAST.min(most)).into())
    }

    /// A wait begins now; whether the last one began less than so many microseconds ago. Its answer then came within
    /// that time even if the waiter slept, and a spin as long as that would have found it.
    pub fn is_in_rhythm(&self, us: u32) -> bool {
        let now = Clock::now().nanos();
        let last = self.began.load(Ordering::Relaxed);
        self.began.store(now, Ordering::Relaxed);
        now.saturating_sub(last) < u64::from(us) * 1000
    }

    /// One more wait: how many there have been.
    pub fn begin_wait(&self) -> u32 {
        let wait = self.waits.load(Ordering::Relaxed).wrapping_add(1);
        self.waits.store(wait, Ordering::Relaxed);
        wait
    }

    /// What became of it.
    pub fn note(&self, paid: bool) {
        let failures = self.failures.load(Ordering::Relaxed);
        let next = if paid {
            failures / 2
        } else {
            (failures + 1).min(2 * GIVE_UP)
        };
        self.failures.store(next, Ordering::Relaxed);
    }

    /// May it touch the table of those who spin? To ask is a system call, and the answer seldom another.
    pub fn may_count(&self) -> bool {
        if self.waits.load(Ordering::Relaxed) % RETRY == 1 {
            self.counts
                .store(guarded::may_be_touched(), Ordering::Relaxed);
        }
        self.counts.load(Ordering::Relaxed) && faults::is_bus_error_caught()
    }

    /// A message has come, from this very CPU or from another.
    pub fn note_sender(&self, near: bool) {
        let left = match near {
            true => APART,
            false => self.near.load(Ordering::Relaxed).saturating_sub(1),
        };
        self.near.store(left, Ordering::Relaxed);
    }

    /// Has one of the last messages come from this CPU?
    pub fn senders_near(&self) -> bool {
        self.near.load(Ordering::Relaxed) > 0
    }
}

/// The CPU that we run on, plus one, as `netstack::ring::ProducerLine` has it.
pub fn cpu() -> u32 {
    rustix::thread::sched_getcpu() as u32 + 1
}

/// Whoever else is ready to run on this CPU runs first. `false`: not now.
///
/// Who gives way to a program that only computes loses the rest of its slice and waits for the end of
/// the other's, where a sleeper is let in as soon as it is woken. So time that is lost that way, when
/// not even threads of our own have had the CPU, is a debt of this process: it may give way as long as
/// not too much of its time is lost.
pub fn give_way() -> bool {
    let begin = Clock::now().nanos();
    let turns = TURNS.fetch_add(1, Ordering::Relaxed);
    if CLEAR_AT.load(Ordering::Relaxed) > begin + LARGEST_DEBT_NS {
        return false;
    }
    rustix::thread::sched_yield();
    let now = Clock::now().nanos();
    let others = TURNS.load(Ordering::Relaxed).wrapping_sub(turns);
    if now - begin >= SLICE && others < CROWD {
        let clear_at = CLEAR_AT.load(Ordering::Relaxed).max(begin);
        CLEAR_AT.store(clear_at + LEAST_GAIN * (now - begin), Ordering::Relaxed);
    }
    true
}

crate::process_wide! {
    /// Waits of this process that give way, or would.
    static TURNS: AtomicU32 = AtomicU32::new(0);
}
/// So many of them while one waits are a crowd, which shares the CPU well.
const CROWD: u32 = 8;
crate::process_wide! {
    /// When the time lost is made good, in nanoseconds of the monotonic clock.
    static CLEAR_AT: AtomicU64 = AtomicU64::new(0);
}
/// A time is lost if it is as long as a slice, of which this is the least (`sysctl_sched_base_slice` in
/// kernel/sched/fair.c).
const SLICE: u64 = 700_000;
/// Time that must pass for each that is lost, and how far ahead the account may be: some 8 ms can be
/// lost at once, and 1.6 % in the long run.
const LEAST_GAIN: u64 = 64;
const LARGEST_DEBT_NS: u64 = 500_000_000;

/// A clock that costs no system call: the vDSO's.
pub struct Clock(rustix::time::Timespec);

impl Clock {
    pub fn now() -> Clock {
        Clock(rustix::time::clock_gettime(
            rustix::time::ClockId::Monotonic,
        ))
    }

    pub fn nanos(&self) -> u64 {
        self.0.tv_sec as u64 * 1_000_000_000 + self.0.tv_nsec as u64
    }

    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(Clock::now().nanos().saturating_sub(self.nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_that_fail_get_shorter_and_end() {
        let history = History::default();
        let mut budgets = Vec::new();
        for _ in 0..GIVE_UP + 1 {
            budgets.push(history.budget(48).as_micros());
            history.note(false);
        }
        assert_eq!(budgets[..5], [48, 24, 12, 6, 6]);
        assert_eq!(budgets[GIVE_UP as usize], 0);
        let tries = (0..2 * RETRY).filter(|_| !history.budget(48).is_zero());
        assert_eq!(tries.count(), 2, "now and then it tries again");
        (0..4).for_each(|_| history.note(true));
        assert_eq!(history.budget(48).as_micros(), 48);
    }

    #[test]
    fn no_spin_is_too_short_for_an_answer() {
        let history = History::default();
        (0..3).for_each(|_| history.note(false));
        assert_eq!(history.budget(20).as_micros(), u128::from(LEAST));
        assert_eq!(history.budget(2).as_micros(), 2);
    }

    #[test]
    fn senders_are_near_until_many_messages_come_from_elsewhere() {
        let history = History::default();
        assert!(!history.senders_near());
        history.note_sender(true);
        for _ in 0..APART {
            assert!(history.senders_near());
            history.note_sender(false);
        }
        assert!(!history.senders_near());
    }
}
