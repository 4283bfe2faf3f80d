//! How to wait before sleeping, and how long.
//!
//! `Auto` waits awake in one of two ways. For a peer that was last seen on another CPU it spins, while
//! fewer waiters spin on this host than it has CPUs. For one on this very CPU, which cannot run while
//! we do, it gives way once: the peer runs, and neither of the two sleeps and is woken. Each waiter's
//! history says whether that pays: a spin that fails, or takes longer than a sleep would have cost,
//! halves the budget, one that pays restores it, and now and then a waiter that has given up tries again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::config::Spin;
use crate::sys::{faults, guarded};
use crate::{inline, process};

/// What a waiter knows about its waits.
#[derive(Default)]
pub struct History {
    /// Spins that failed in a row.
    failures: AtomicU32,
    waits: AtomicU32,
    /// Pauses before the first look; see [`MOST_PAUSES`].
    pauses: AtomicU32,
    /// Who waits for several peers: messages to come from other CPUs before it spins again.
    near: AtomicU32,
    /// It may touch the table of those who spin, as far as it has asked.
    counts: AtomicBool,
}

/// A look takes the cursor's cache line away from the one who writes it. A waiter that finds news at
/// its first look, as the reader of a stream of small messages does, looks a little later next time
/// and finds more at once; one that had to wait, as in a ping-pong, looks at once.
const MOST_PAUSES: u32 = 6;
/// A waiter that has given up spinning tries again once in so many waits.
const RETRY: u32 = 64;
/// Failures in a row after which spinning stops.
const GIVE_UP: u32 = 8;
/// The shortest spin, in microseconds: long enough for the answer of a peer that spins too, or else two
/// that have given up would not find back to spinning.
const LEAST: u32 = 6;
/// What a sleep costs the two ends, about, and the host with it: a longer spin does not pay, even if
/// what it waits for comes.
const WORTH: Duration = Duration::from_micros(20);
/// So many messages in a row from other CPUs show that those who send run elsewhere.
const APART: u32 = 16;

impl History {
    /// The time to spin in this wait.
    pub fn budget(&self, most: u32) -> Duration {
        let failures = self.failures.load(Ordering::Relaxed);
        let wait = self.waits.load(Ordering::Relaxed).wrapping_add(1);
        self.waits.store(wait, Ordering::Relaxed);
        if failures >= GIVE_UP && !wait.is_multiple_of(RETRY) {
            return Duration::ZERO;
        }
        let us = most >> failures.min(3);
        Duration::from_micros(us.max(LEAST.min(most)).into())
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
    fn may_count(&self) -> bool {
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

/// The CPU that we run on, plus one, as [`netstack::ring::ProducerLine`] has it.
pub fn cpu() -> u32 {
    rustix::thread::sched_getcpu() as u32 + 1
}

/// Waits awake until `ready` says yes, or for as long as is worth while; `true` if it said yes.
/// `near`: those who are waited for run on this CPU.
pub fn until(history: &History, near: impl Fn() -> bool, mut ready: impl FnMut() -> bool) -> bool {
    let (budget, auto) = match process::config().spin {
        Spin::Auto(_) if near() => return give_way() && ready(),
        Spin::Auto(most) => (history.budget(most.max(engine())), true),
        Spin::Fixed(us) => (Duration::from_micros(us.into()), false),
        // The caller looks at the kernel in between and comes back.
        Spin::Forever => (Duration::from_micros(200), false),
    };
    if budget.is_zero() {
        return false;
    }
    let Some(_place) = Place::take(auto, history) else {
        return false;
    };
    let spent = spin(history, budget, &mut ready);
    let worth = WORTH.max(Duration::from_micros(engine().into()));
    history.note(spent.is_some_and(|time| time < worth));
    spent.is_some()
}

/// Who polls an engine of its own spins longer, in microseconds: asleep it is woken by way of the helper, and a
/// peer that sleeps takes about so long to answer.
fn engine() -> u32 {
    match inline::is_on() {
        true => 100,
        false => 0,
    }
}

/// How long it took, about; `None` if nothing came within the budget.
fn spin(history: &History, budget: Duration, ready: &mut impl FnMut() -> bool) -> Option<Duration> {
    let pauses = history.pauses.load(Ordering::Relaxed);
    (0..pauses).for_each(|_| std::hint::spin_loop());
    inline::glance();
    let mut spent = Duration::ZERO;
    if ready() {
        let more = (pauses + 1).min(MOST_PAUSES);
        history.pauses.store(more, Ordering::Relaxed);
        return Some(spent);
    }
    history.pauses.store(0, Ordering::Relaxed);
    let begin = Clock::now();
    while spent < budget {
        for _ in 0..32 {
            // A look at the engine is pause enough, and a frame should not wait for its end.
            if !inline::glance() {
                std::hint::spin_loop();
            }
            if ready() {
                return Some(spent);
            }
        }
        spent = begin.elapsed();
    }
    None
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
    if CLEAR_AT.load(Ordering::Relaxed) > begin + PATIENCE {
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

/// Waits of this process that give way, or would.
static TURNS: AtomicU32 = AtomicU32::new(0);
/// So many of them while one waits are a crowd, which shares the CPU well.
const CROWD: u32 = 8;
/// When the time lost is made good, in nanoseconds of the monotonic clock.
static CLEAR_AT: AtomicU64 = AtomicU64::new(0);
/// A time is lost if it is as long as a slice, of which this is the least (`sysctl_sched_base_slice` in
/// kernel/sched/fair.c).
const SLICE: u64 = 700_000;
/// Time that must pass for each that is lost, and how far ahead the account may be: some 8 ms can be
/// lost at once, and 1.6 % in the long run.
const LEAST_GAIN: u64 = 64;
const PATIENCE: u64 = 500_000_000;

/// A clock that costs no system call: the vDSO's.
struct Clock(rustix::time::Timespec);

impl Clock {
    fn now() -> Clock {
        Clock(rustix::time::clock_gettime(
            rustix::time::ClockId::Monotonic,
        ))
    }

    fn nanos(&self) -> u64 {
        self.0.tv_sec as u64 * 1_000_000_000 + self.0.tv_nsec as u64
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(Clock::now().nanos().saturating_sub(self.nanos()))
    }
}

/// One of the host's places for spinners.
struct Place<'a>(Option<&'a AtomicU32>);

impl Place<'_> {
    fn take(auto: bool, history: &History) -> Option<Place<'static>> {
        if !auto {
            return Some(Place(None));
        }
        let spinners = process::spinners()?;
        if !history.may_count() {
            return Some(Place(None));
        }
        if !spinners.room() {
            return None;
        }
        spinners.mine().fetch_add(1, Ordering::Relaxed);
        Some(Place(Some(spinners.mine())))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(mine) = self.0 {
            mine.fetch_sub(1, Ordering::Relaxed);
        }
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
