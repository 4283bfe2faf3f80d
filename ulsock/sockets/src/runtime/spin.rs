//! How to wait before sleeping, and how long.
//!
//! `Auto` waits awake in one of two ways. For a peer that was last seen on another CPU it spins, while
//! fewer waiters spin on this host than it has CPUs. For one on this very CPU, which cannot run while
//! we do, it gives way once: the peer runs, and neither of the two sleeps and is woken. Each waiter's
//! history says whether that pays: a spin that fails, or takes longer than a sleep would have cost,
//! halves the budget, one that pays restores it, and now and then a waiter that has given up tries again.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::runtime::process;
use crate::runtime::waits::{self, Wait};
use os::spin::Clock;
use os::spin::History;
use os::spin::give_way;
use rendezvous::config::Spin;

/// A look takes the cursor's cache line away from the one who writes it. A waiter that finds news at
/// its first look, as the reader of a stream of small messages does, looks a little later next time
/// and finds more at once; one that had to wait, as in a ping-pong, looks at once.
const MOST_PAUSES: u32 = 6;
/// What a sleep costs the two ends, about, and the host with it: a longer spin does not pay, even if
/// what it waits for comes.
const WORTH: Duration = Duration::from_micros(20);

/// Waits awake until `ready` says yes, or for as long as is worth while; `true` if it said yes.
/// `near`: those who are waited for run on this CPU.
pub fn until(history: &History, near: impl Fn() -> bool, ready: impl FnMut() -> bool) -> bool {
    until_or(history, near, ready, || false)
}

/// The same, unless `stop` says that there is something else to do: that says nothing of how long a wait is worth while.
pub fn until_or(
    history: &History,
    near: impl Fn() -> bool,
    mut ready: impl FnMut() -> bool,
    stop: impl Fn() -> bool,
) -> bool {
    let (budget, auto) = match process::config().spin {
        Spin::Auto(_) if near() => return give_way() && ready(),
        Spin::Auto(most) => {
            let budget = history.budget(most.max(engine()));
            (with_engine(history, budget, engine()), true)
        }
        Spin::Fixed(us) => (Duration::from_micros(us.into()), false),
        // The caller looks at the kernel in between and comes back.
        Spin::Forever => (Duration::from_micros(200), false),
    };
    if budget.is_zero() {
        return false;
    }
    let Some(_place) = SpinPlace::take(auto, history) else {
        return false;
    };
    let stopped = Cell::new(false);
    let spent = spin(history, budget, || {
        let came = ready();
        stopped.set(!came && stop());
        came || stopped.get()
    });
    if stopped.get() {
        return false;
    }
    let worth = WORTH.max(Duration::from_micros(engine().into()));
    history.note(spent.is_some_and(|time| time < worth));
    waits::note(match spent {
        Some(_) => Wait::Awake,
        None => Wait::InVain,
    });
    spent.is_some()
}

/// As [`until`], but only for as long as an answer takes that is under way already. In vain it says nothing of how long a
/// wait is worth while: a longer one may follow.
pub fn briefly(history: &History, near: impl Fn() -> bool, ready: impl FnMut() -> bool) -> bool {
    const BRIEF: Duration = Duration::from_micros(2);
    let (budget, auto) = match process::config().spin {
        Spin::Auto(_) if near() => return false,
        Spin::Auto(most) => (history.budget(most), true),
        Spin::Fixed(us) => (Duration::from_micros(us.into()), false),
        Spin::Forever => (BRIEF, false),
    };
    if budget.is_zero() {
        return false;
    }
    let Some(_place) = SpinPlace::take(auto, history) else {
        return false;
    };
    let came = spin(history, budget.min(BRIEF), ready).is_some();
    if came {
        history.note(true);
        waits::note(Wait::Awake);
    }
    came
}

/// Who polls an engine of its own spins longer, in microseconds: asleep it is woken by way of the helper, and a
/// peer that sleeps takes about so long to answer.
fn engine() -> u32 {
    match crate::runtime::engine_flag::is_on() {
        true => 100,
        false => 0,
    }
}

/// Who polls an engine spins for half of that, or not at all: of two that have taken to sleep each would find the
/// other's answers too late, and neither would find back to spinning. Whose last answer came within all of that spins
/// for all of it, whatever became of earlier spins.
fn with_engine(history: &History, budget: Duration, engine: u32) -> Duration {
    if engine != 0 && history.is_in_rhythm(engine) {
        return budget.max(Duration::from_micros(engine.into()));
    }
    match budget.is_zero() {
        true => budget,
        false => budget.max(Duration::from_micros((engine / 2).into())),
    }
}

/// How long it took, about; `None` if nothing came within the budget.
fn spin(history: &History, budget: Duration, mut ready: impl FnMut() -> bool) -> Option<Duration> {
    let pauses = history.pauses.load(Ordering::Relaxed);
    (0..pauses).for_each(|_| std::hint::spin_loop());
    crate::runtime::engine_flag::glance();
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
            if !crate::runtime::engine_flag::glance() {
                std::hint::spin_loop();
            }
            if ready() {
                return Some(spent);
            }
        }
        spent = begin.elapsed();
        // Most answers have come by now. Who is to give this one may want to run on this CPU: a thread of the peer's
        // program, if it is on this host, or of ours.
        if crate::runtime::engine_flag::is_on() {
            rustix::thread::sched_yield();
        }
    }
    None
}

/// One of the host's places for spinners.
pub struct SpinPlace<'a>(Option<&'a AtomicU32>);

impl SpinPlace<'_> {
    pub fn take(auto: bool, history: &History) -> Option<SpinPlace<'static>> {
        if !auto {
            return Some(SpinPlace(None));
        }
        let spinners = process::spinners()?;
        if !history.may_count() {
            return Some(SpinPlace(None));
        }
        if !spinners.room() {
            return None;
        }
        spinners.mine().fetch_add(1, Ordering::Relaxed);
        Some(SpinPlace(Some(spinners.mine())))
    }
}

impl Drop for SpinPlace<'_> {
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
    fn two_that_poll_engines_find_back_to_spinning() {
        // What eight answers that came too late have left of 100 us, and the time of an answer of a sleeper.
        let (left, answer) = (Duration::from_micros(12), Duration::from_micros(45));
        let budget = |budget, engine| with_engine(&History::default(), budget, engine);
        assert!(budget(left, 100) > answer);
        assert_eq!(budget(left, 0), left);
        assert_eq!(budget(Duration::ZERO, 100), Duration::ZERO, "given up");
    }

    /// A second, so that the test's own pauses do not matter.
    #[test]
    fn who_has_given_up_spins_again_when_answers_come_soon() {
        let (history, second) = (History::default(), 1_000_000);
        let budget = || with_engine(&history, Duration::ZERO, second);
        assert_eq!(budget(), Duration::ZERO, "the first wait");
        assert_eq!(budget(), Duration::from_secs(1));
    }
}
