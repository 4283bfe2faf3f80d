//! How long the daemon stays awake with nothing to do.
//!
//! To sleep and be woken takes longer than everything else that happens between a program and the wire. So
//! the daemon goes on looking for a while, and at each look gives way to whoever wants its CPU: the programs
//! run there, and what they answer is found without anybody having slept.
//!
//! That pays only if something comes almost every time: a spin in vain costs as much CPU time as ten sleeps. So the
//! last pauses between news are remembered, those that were slept through, too. If some of them were long, requests
//! are sparse, and the daemon sleeps at once; if all were short it stays awake.

use std::time::Duration;

use netstack::time::Instant;

/// The longest idle spin: two hops and back, with four processes on two CPUs.
const LONGEST_SPIN: Duration = Duration::from_micros(100);
/// Of the last pauses, which are the bits of a word, so many may have been longer.
const LONG_PAUSES: u32 = 2;
/// After a message between daemons about a promotion: a program waits for it, 5 ms at first, and it takes two messages and
/// four wake-ups. On a busy host who sleeps meanwhile is often too late.
const PROMOTION: Duration = Duration::from_millis(2);

/// After a program that only computes had our CPU, nobody spins for so long: to give way to it takes some
/// milliseconds, in which a promotion fails, while who sleeps is woken in time.
const CROWDED: Duration = Duration::from_millis(100);

pub struct IdleSpin {
    /// Of the last pauses between news, the latest in the lowest bit: whether it was short.
    pauses: u16,
    /// Frames that had come and gone when there was news.
    frames: u64,
    /// When the pause began that goes on.
    since: Option<Instant>,
    /// A promotion may be under way until then.
    awake_until: Instant,
    /// Until then a program that only computes may want our CPU: nobody spins beside it.
    crowded_until: Instant,
}

impl Default for IdleSpin {
    fn default() -> IdleSpin {
        IdleSpin {
            pauses: u16::MAX,
            frames: 0,
            since: None,
            awake_until: Instant::ZERO,
            crowded_until: Instant::ZERO,
        }
    }
}

impl IdleSpin {
    /// After each poll: whether to poll again instead of sleeping. `busy`: the engines want it anyway; `frames`:
    /// how many have come and gone by now.
    pub fn goes_on(&mut self, time: Instant, busy: bool, frames: u64) -> bool {
        self.goes_on_if(time, busy, frames, os::spin::give_way)
    }

    /// The last pauses were short: the next news may come at once.
    pub fn expects_news(&self) -> bool {
        self.pauses.count_zeros() <= LONG_PAUSES
    }

    /// The daemons talk about a promotion.
    pub fn stay_awake(&mut self, time: Instant) {
        self.awake_until = time + PROMOTION;
    }

    /// `give_way`: whether anybody gives way now.
    fn goes_on_if(
        &mut self,
        time: Instant,
        busy: bool,
        frames: u64,
        give_way: impl FnOnce() -> bool,
    ) -> bool {
        if self.frames != frames {
            self.frames = frames;
            if let Some(begin) = self.since.take() {
                let short = time.since(begin) <= LONGEST_SPIN;
                self.pauses = self.pauses << 1 | u16::from(short);
            }
            return true;
        }
        let begin = *self.since.get_or_insert(time);
        let expects = self.expects_news() && time.since(begin) < LONGEST_SPIN;
        let spins = expects || time < self.awake_until;
        if !busy && !spins || time < self.crowded_until {
            return busy;
        }
        let patient = give_way();
        if !patient {
            self.crowded_until = time + CROWDED;
        }
        patient || busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    fn look(idle_spin: &mut IdleSpin, us: u64, frames: u64) -> bool {
        idle_spin.goes_on_if(at(us), false, frames, || true)
    }

    /// News come every so many microseconds, so often; how long is spun for the next.
    fn spun(idle_spin: &mut IdleSpin, pauses: &[u64], times: usize) -> u64 {
        let mut now = idle_spin.frames * 1_000_000;
        for pause in pauses.iter().cycle().take(times * pauses.len()) {
            assert!(look(idle_spin, now, idle_spin.frames + 1), "news");
            look(idle_spin, now, idle_spin.frames);
            now += pause;
        }
        assert!(look(idle_spin, now, idle_spin.frames + 1), "news");
        let spins = |us: &u64| look(idle_spin, now + us, idle_spin.frames);
        (0..).take_while(spins).count() as u64
    }

    #[test]
    fn what_comes_soon_is_waited_for() {
        let mut idle_spin = IdleSpin::default();
        assert_eq!(spun(&mut idle_spin, &[90], 100), 100);
        assert_eq!(spun(&mut idle_spin, &[3, 7, 20], 100), 100);
    }

    #[test]
    fn one_pause_of_the_program_is_no_reason_to_sleep() {
        let mut idle_spin = IdleSpin::default();
        spun(&mut idle_spin, &[500], 1);
        assert_eq!(spun(&mut idle_spin, &[20], 10), 100);
    }

    /// A request is followed by its answer and acknowledgements, which come soon.
    #[test]
    fn sparse_requests_are_slept_through() {
        for pause in [1_000, 10_000, 100_000] {
            let mut idle_spin = IdleSpin::default();
            assert_eq!(spun(&mut idle_spin, &[60, 30, pause], 10), 0, "{pause}");
            assert!(!idle_spin.expects_news());
            // Until they come one after the other.
            assert_eq!(spun(&mut idle_spin, &[60], 20), 100);
        }
    }

    #[test]
    fn a_promotion_is_waited_for_once() {
        let mut idle_spin = IdleSpin::default();
        assert_eq!(spun(&mut idle_spin, &[10_000], 20), 0);
        let now = 1_000_000_000;
        idle_spin.stay_awake(at(now));
        let frames = idle_spin.frames;
        let spins = |us: &u64| look(&mut idle_spin, now + us, frames);
        assert_eq!((0..).take_while(spins).count(), 2_000);
    }

    #[test]
    fn nobody_keeps_awake_beside_a_program_that_computes() {
        let mut idle_spin = IdleSpin::default();
        assert!(!idle_spin.goes_on_if(at(0), false, 0, || false));
        assert!(!look(&mut idle_spin, 1, 0));
        assert!(look(&mut idle_spin, 2, 1), "news");
        idle_spin.stay_awake(at(3));
        assert!(!look(&mut idle_spin, 3, 1), "nor for a promotion");
        assert!(idle_spin.goes_on_if(at(3), true, 1, || panic!("not asked")));
        assert!(look(&mut idle_spin, 200_000, 2) && look(&mut idle_spin, 200_000, 2));
    }

    #[test]
    fn busy_engines_are_polled_again() {
        let mut idle_spin = IdleSpin::default();
        for time in 0..10 {
            assert!(idle_spin.goes_on_if(at(time * 1000), true, 0, || false));
        }
    }
}
