//! How long to spin before sleeping.
//!
//! `Auto` spins only while fewer waiters spin on this host than it has CPUs, and only while this
//! waiter's history says that its waits are short: a spin that fails halves the budget, one that
//! pays restores it, and now and then a waiter that has given up tries again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::config::Spin;
use crate::process;

/// Waits that failed in a row; kept per waiter.
#[derive(Default)]
pub struct History {
    failures: AtomicU32,
    waits: AtomicU32,
    /// Pauses before the first look; see [`MOST_PAUSES`].
    pauses: AtomicU32,
}

/// A look takes the cursor's cache line away from the one who writes it. A waiter that finds news at
/// its first look, as the reader of a stream of small messages does, looks a little later next time
/// and finds more at once; one that had to wait, as in a ping-pong, looks at once.
const MOST_PAUSES: u32 = 6;

/// A waiter that has given up spinning tries again once in so many waits.
const RETRY: u32 = 64;
/// Failures in a row after which spinning stops.
const GIVE_UP: u32 = 8;

impl History {
    /// The time to spin in this wait.
    fn budget(&self, most: u32) -> Duration {
        let failures = self.failures.load(Ordering::Relaxed);
        let wait = self.waits.load(Ordering::Relaxed).wrapping_add(1);
        self.waits.store(wait, Ordering::Relaxed);
        if failures >= GIVE_UP && !wait.is_multiple_of(RETRY) {
            return Duration::ZERO;
        }
        Duration::from_micros(u64::from(most >> failures.min(3)))
    }

    fn note(&self, paid: bool) {
        let failures = self.failures.load(Ordering::Relaxed);
        let next = if paid {
            failures / 2
        } else {
            (failures + 1).min(2 * GIVE_UP)
        };
        self.failures.store(next, Ordering::Relaxed);
    }
}

/// Spins until `ready` says yes or the budget is used up; `true` if it said yes.
pub fn until(history: &History, mut ready: impl FnMut() -> bool) -> bool {
    let (budget, auto) = match process::config().spin {
        Spin::Auto(most) => (history.budget(most), true),
        Spin::Fixed(us) => (Duration::from_micros(us.into()), false),
        // The caller looks at the kernel in between and comes back.
        Spin::Forever => (Duration::from_micros(200), false),
    };
    if budget.is_zero() {
        return false;
    }
    let Some(_place) = Place::take(auto) else {
        return false;
    };
    let paid = spin(history, budget, &mut ready);
    history.note(paid);
    paid
}

fn spin(history: &History, budget: Duration, ready: &mut impl FnMut() -> bool) -> bool {
    let pauses = history.pauses.load(Ordering::Relaxed);
    (0..pauses).for_each(|_| std::hint::spin_loop());
    if ready() {
        history
            .pauses
            .store((pauses + 1).min(MOST_PAUSES), Ordering::Relaxed);
        return true;
    }
    history.pauses.store(0, Ordering::Relaxed);
    let begin = Clock::now();
    loop {
        for _ in 0..32 {
            std::hint::spin_loop();
            if ready() {
                return true;
            }
        }
        if begin.elapsed() >= budget {
            return false;
        }
    }
}

/// A clock that costs no system call: the vDSO's.
struct Clock(rustix::time::Timespec);

impl Clock {
    fn now() -> Clock {
        Clock(rustix::time::clock_gettime(
            rustix::time::ClockId::Monotonic,
        ))
    }

    fn elapsed(&self) -> Duration {
        let now = Clock::now().0;
        let nanos = (now.tv_sec - self.0.tv_sec) * 1_000_000_000 + (now.tv_nsec - self.0.tv_nsec);
        Duration::from_nanos(nanos.max(0) as u64)
    }
}

/// One of the host's places for spinners.
struct Place<'a>(Option<&'a AtomicU32>);

impl Place<'_> {
    fn take(auto: bool) -> Option<Place<'static>> {
        if !auto {
            return Some(Place(None));
        }
        let spinners = process::spinners()?;
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
