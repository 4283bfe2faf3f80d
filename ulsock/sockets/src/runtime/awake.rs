//! Waiting awake for what the kernel brings: a waiter looks again, by a system call that does not wait, before it makes
//! the one that sleeps. Two ends that are awake spare each other the wake-up, which takes most of the time of a round trip.
//!
//! `Auto` does so only in a rhythm: this thread's last waits followed each other so closely that the next answer is
//! likely to come before a sleep would have paid, and no more threads want a CPU of the host than it has. A waiter without one makes its sleeping call at once, and its only cost
//! is a look at the clock. Between looks the thread gives way, so that a peer on the same CPU runs. If the answer comes by
//! that, the next waits sleep at once: on one CPU nobody has to be woken elsewhere, and a sleep costs least. Who loses a time
//! slice shares the CPU with a program that computes, and this process sleeps at once for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::runtime::process;
use crate::runtime::signal::Seen;
use crate::runtime::spin::SpinPlace;
use crate::runtime::spinners::Spinners;
use crate::runtime::thread::{Critical, Thread};
use crate::runtime::tracer;
use os::rhythm::Rhythm;
use os::spin::Clock;
use rendezvous::config::Spin;
use rendezvous::tracer::mark;

/// Who has no more time than this does not wait awake first.
pub const SHORT: Duration = Duration::from_millis(1);

/// How a wait has ended.
pub enum Waited<T> {
    /// A look has found this.
    Found(T),
    /// A handler has run.
    Handler,
    /// Make the call that sleeps.
    Nothing,
}

/// Waits awake as long as it is worth while. `look` makes a system call that does not wait; but for the first time it is
/// called inside a critical section, so that no handler jumps away from a spinner's place.
pub fn until<T>(me: &'static Thread, look: impl FnMut() -> Option<T>) -> Waited<T> {
    match begin(me) {
        Some(budget) => budget.until(me, look),
        None => Waited::Nothing,
    }
}

#[inline(never)]
fn go_on<T>(me: &'static Thread, budget: Budget, look: impl FnMut() -> Option<T>) -> Waited<T> {
    // The table of spinners may be touched by a thread that has asked; see `os::spin::History::may_count`.
    me.spin.begin_wait();
    let Some(place) = SpinPlace::take(budget.auto, &me.spin) else {
        return Waited::Nothing;
    };
    let seen = Seen::now(me);
    let critical = Critical::of(me);
    let found = looks(me, Duration::from_micros(budget.us.into()), look);
    drop(place);
    drop(critical);
    match found {
        Some(found) => Waited::Found(found),
        None if seen.any_handler(me) => Waited::Handler,
        None => Waited::Nothing,
    }
}

/// How long to wait awake.
#[derive(Clone, Copy)]
pub struct Budget {
    us: u32,
    /// If there is a place for it.
    auto: bool,
}

impl Budget {
    /// `None`: not at all.
    #[inline]
    fn of(spin: Spin) -> Option<Budget> {
        let (us, auto) = match spin {
            Spin::Auto(most) => (most.min(LONGEST), true),
            Spin::Fixed(us) => (us, false),
            Spin::Forever => (UNBOUNDED, false),
        };
        (us != 0).then_some(Budget { us, auto })
    }

    /// See [`until`].
    #[inline]
    pub fn until<T>(self, me: &'static Thread, mut look: impl FnMut() -> Option<T>) -> Waited<T> {
        // Most often something is there, and nobody has to be asked for a place.
        if let Some(found) = look() {
            return Waited::Found(found);
        }
        go_on(me, self, look)
    }
}

/// A wait begins, for those who have to know how before they look. `None`: make the call that sleeps.
#[inline]
pub fn begin(me: &'static Thread) -> Option<Budget> {
    if !process::is_on() {
        return None;
    }
    let budget = Budget::of(process::config().spin)?;
    let in_rhythm = || !me.rhythm.is_first() && HOST.allows(&me.rhythm, Clock::now().nanos());
    let now = !budget.auto || in_rhythm();
    now.then_some(budget)
}

fn looks<T>(me: &Thread, budget: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = Clock::now().nanos();
    let mut now = begin;
    let mut gives_way = false;
    for count in 1u32.. {
        if gives_way {
            rustix::thread::sched_yield();
        }
        let before = now;
        now = Clock::now().nanos();
        if now - before >= SLICE {
            HOST.rest(now, FIRST_REST);
            break;
        }
        if let Some(found) = look() {
            me.rhythm.note_found(gives_way && now - before >= SWITCH);
            tracer::mark(mark::AWAKE);
            if now - begin >= WORTH {
                me.rhythm.note_missed();
            }
            return Some(found);
        }
        if me.deferred.any() {
            return None;
        }
        if now - begin >= budget.as_nanos() as u64 {
            break;
        }
        gives_way = count.is_multiple_of(LOOKS_BETWEEN);
    }
    me.rhythm.note_missed();
    tracer::mark(mark::IN_VAIN);
    None
}

/// Looks between two of which the thread gives way.
const LOOKS_BETWEEN: u32 = 2;
/// Microseconds that `Auto` waits at most: more than an answer takes whose sender had to be woken.
const LONGEST: u32 = 30;
/// The same where waiting awake shall never end: then the thread sleeps in spite of it, and looks again when it is woken.
const UNBOUNDED: u32 = 1_000;
/// Nanoseconds after which an answer comes too late: a sleep and its wake-up would have cost less.
const WORTH: u64 = 25_000;
/// Nanoseconds that giving way takes at least if somebody else runs meanwhile.
const SWITCH: u64 = 1_200;
/// Nanoseconds that no look takes: another program had the CPU meanwhile.
const SLICE: u64 = 300_000;

/// What this process knows about other programs on its CPUs.
struct Host {
    /// Nobody waits awake before this time, in nanoseconds.
    rests_until: AtomicU64,
    /// The length of the latest rest.
    rest: AtomicU64,
    /// When the kernel is asked next who wants a CPU.
    asks_at: AtomicU64,
}

os::process_wide! {
    static HOST: Host = Host {
        rests_until: AtomicU64::new(0),
        rest: AtomicU64::new(0),
        asks_at: AtomicU64::new(0),
    };
}

/// A slice that is lost takes some three milliseconds, so the first rest makes it five percent, and the longest one none.
const FIRST_REST: u64 = 60_000_000;
const LONGEST_REST: u64 = 4_000_000_000;
/// A crowd may be gone in a moment.
const FIRST_IN_CROWD: u64 = 20_000_000;
/// So long an answer of the kernel holds, which takes some microseconds: no more than a thousandth of the time.
const ASKS_EVERY: u64 = 10_000_000;

impl Host {
    /// A wait begins at this time: may it be awake?
    #[inline]
    fn allows(&self, rhythm: &Rhythm, now: u64) -> bool {
        rhythm.begin(now) && !self.rests(now) && !self.is_crowded(now)
    }

    #[inline]
    fn rests(&self, now: u64) -> bool {
        now < self.rests_until.load(Ordering::Relaxed)
    }

    /// Do more threads want a CPU than there are? Then nobody waits awake until the kernel is asked again.
    #[inline]
    fn is_crowded(&self, now: u64) -> bool {
        now >= self.asks_at.load(Ordering::Relaxed) && self.ask(now)
    }

    #[cold]
    fn ask(&self, now: u64) -> bool {
        let cpus = process::spinners().map_or(1, Spinners::cpus);
        let crowded = os::load::runnable().is_some_and(|count| count > cpus);
        let next = match crowded {
            true => self.rest(now, FIRST_IN_CROWD),
            false => now + ASKS_EVERY,
        };
        self.asks_at.store(next, Ordering::Relaxed);
        crowded
    }

    /// Nobody waits awake for this time, or twice as long as last time if that is not long ago; until when.
    #[cold]
    fn rest(&self, now: u64, first: u64) -> u64 {
        let last = self.rest.load(Ordering::Relaxed);
        let again = now < self.rests_until.load(Ordering::Relaxed) + 4 * last;
        let rest = match again {
            true => (2 * last).clamp(first, LONGEST_REST),
            false => first,
        };
        self.rest.store(rest, Ordering::Relaxed);
        self.rests_until.store(now + rest, Ordering::Relaxed);
        now + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It has told that nobody else wants a CPU, and is not asked again.
    fn idle_host() -> Host {
        Host {
            rests_until: AtomicU64::new(0),
            rest: AtomicU64::new(0),
            asks_at: AtomicU64::new(u64::MAX),
        }
    }

    #[test]
    fn answers_that_come_soon_are_waited_for_awake() {
        let (host, rhythm, mut now) = (idle_host(), Rhythm::default(), 1 << 40);
        let mut trip = |pause: u64| {
            now += pause;
            rhythm.note_sent();
            host.allows(&rhythm, now)
        };
        let first = (0..100).position(|_| trip(10_000));
        assert!(first.is_some_and(|n| n < 20), "{first:?}");
        assert!((0..100).all(|_| trip(10_000)), "and so they stay");
        assert!(
            (0..100).filter(|_| trip(1_000_000)).count() <= 3,
            "not late ones"
        );
    }

    #[test]
    fn nobody_waits_awake_while_the_host_rests() {
        let (host, rhythm, mut now) = (idle_host(), Rhythm::default(), 1 << 40);
        let until = host.rest(now, FIRST_IN_CROWD);
        let mut allowed = std::iter::from_fn(|| {
            now += 10_000;
            rhythm.note_sent();
            Some((now, host.allows(&rhythm, now)))
        });
        assert!(
            allowed
                .by_ref()
                .take_while(|(now, _)| *now < until)
                .all(|(_, awake)| !awake)
        );
        assert!(
            allowed.take(10).all(|(_, awake)| awake),
            "at its end at once"
        );
    }

    #[test]
    fn the_time_of_a_setting() {
        let of = |spin| Budget::of(spin).map(|budget| (budget.us, budget.auto));
        assert_eq!(of(Spin::Auto(50)), Some((LONGEST, true)));
        assert_eq!(of(Spin::Auto(20)), Some((20, true)));
        assert_eq!(of(Spin::Fixed(200)), Some((200, false)));
        assert_eq!(of(Spin::Fixed(0)), None);
        assert_eq!(of(Spin::Forever), Some((UNBOUNDED, false)));
    }

    #[test]
    fn on_a_busy_host_rests_get_longer_up_to_a_limit() {
        let host = idle_host();
        let mut now = 1 << 40;
        let mut rests = Vec::new();
        for _ in 0..10 {
            host.rest(now, FIRST_REST);
            let until = host.rests_until.load(Ordering::Relaxed);
            assert!(host.rests(until - 1) && !host.rests(until));
            rests.push(until - now);
            now = until + 1;
        }
        assert_eq!(rests[..3], [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]);
        assert_eq!(rests[9], LONGEST_REST);
        now += 5 * LONGEST_REST;
        host.rest(now, FIRST_REST);
        assert!(!host.rests(now + FIRST_REST), "after quiet it begins anew");
    }
}
