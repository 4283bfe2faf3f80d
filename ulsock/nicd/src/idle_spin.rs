//! How long the daemon stays awake with nothing to do.
//!
//! To sleep and be woken takes longer than everything else that happens between a program and the wire. So
//! the daemon goes on looking for a while, and at each look gives way to whoever wants its CPU: the programs
//! run there, and what they answer is found without anybody having slept. Whether that pays is known from the
//! last times, as for a program that waits (`os::spin`); a daemon whose programs are quiet sleeps at once.

use std::time::Duration;

use netstack::time::Instant;

use os::spin::History;

/// The longest idle spin, in microseconds: two hops and back, with four processes on two CPUs.
const LONGEST_SPIN_US: u32 = 100;

#[derive(Default)]
pub struct IdleSpin {
    history: History,
    /// Frames that had come and gone when there was news.
    frames: u64,
    since: Option<(Instant, Duration)>,
}

impl IdleSpin {
    /// After each poll: whether to poll again instead of sleeping. `busy`: the engines want it anyway; `frames`:
    /// how many have come and gone by now.
    pub fn goes_on(&mut self, time: Instant, busy: bool, frames: u64) -> bool {
        self.goes_on_if(time, busy, frames, os::spin::give_way)
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
            if self.since.take().is_some() {
                self.history.note(true);
            }
            return true;
        }
        let (begin, budget) = match self.since {
            Some(idle_spin) => idle_spin,
            None => *self
                .since
                .insert((time, self.history.budget(LONGEST_SPIN_US))),
        };
        if !busy && time - begin >= budget {
            self.end(budget);
            return false;
        }
        // To a program that only computes nobody gives way for long: who sleeps is woken in time.
        let patient = give_way() || busy;
        if !patient {
            self.since = None;
        }
        patient
    }

    /// Nothing has come.
    fn end(&mut self, budget: Duration) {
        self.since = None;
        if !budget.is_zero() {
            self.history.note(false);
        }
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

    /// How long an idle spin lasts in which nothing comes.
    fn wait(idle_spin: &mut IdleSpin, from: u64) -> u64 {
        (from..)
            .take_while(|us| look(idle_spin, *us, idle_spin.frames))
            .count() as u64
    }

    #[test]
    fn what_comes_is_waited_for() {
        let mut idle_spin = IdleSpin::default();
        for frames in 1..100 {
            let begin = frames * 1000;
            assert!(look(&mut idle_spin, begin, frames), "news");
            assert!(look(&mut idle_spin, begin, frames));
            assert!(look(&mut idle_spin, begin + 90, frames));
        }
    }

    #[test]
    fn spins_in_vain_get_shorter() {
        let mut idle_spin = IdleSpin::default();
        let long = wait(&mut idle_spin, 0);
        assert_eq!(long, u64::from(LONGEST_SPIN_US));
        assert!(wait(&mut idle_spin, 1000) < long);
        for time in 2..64 {
            wait(&mut idle_spin, time * 1000);
        }
        assert_eq!(wait(&mut idle_spin, 100_000), 0, "it sleeps at once");
    }

    #[test]
    fn nobody_keeps_awake_beside_a_program_that_computes() {
        let mut idle_spin = IdleSpin::default();
        assert!(!idle_spin.goes_on_if(at(0), false, 0, || false));
    }

    #[test]
    fn busy_engines_are_polled_again() {
        let mut idle_spin = IdleSpin::default();
        for time in 0..10 {
            assert!(idle_spin.goes_on_if(at(time * 1000), true, 0, || false));
        }
    }
}
