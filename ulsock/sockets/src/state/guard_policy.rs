//! Is a connection better off on the kernel? The decision, as a state machine without I/O; `conn/guard`
//! feeds it and does what it says.
//!
//! A call that finds its ring ready is always cheaper than one of the kernel's. Only a connection whose
//! ends keep sleeping and waking each other may lose by its rings. Such a one is tried: a stretch of
//! time on the ring, one on the kernel, and so on, and what was carried is compared. A single stretch
//! in which the kernel does not win clearly ends the trial, so that neither chance nor a change of the
//! program's behaviour moves a connection, and one that gains by its rings spends a few milliseconds.

/// The times and numbers that decide. Times are in microseconds.
#[derive(Debug)]
pub struct Temper {
    /// So many sleeps and wake-ups, in this time at least and in `LONGEST_WINDOW` at most, are suspicious.
    events: u32,
    window: u64,
    /// After a change of carriers nothing is measured for so long.
    settle: u64,
    /// A stretch lasts so long, and until so many messages have moved, but not longer than `longest`.
    stretch: u64,
    messages: u64,
    longest: u64,
    /// The kernel must carry so many bytes for each 100 of the ring's.
    gain: u64,
    /// Stretches of a trial, as many on the ring as on the kernel.
    stretches: u32,
    /// How long the kernel's victory holds, and the ring's: twice as long each time, up to 64 times.
    hold: u64,
    pause: u64,
}

/// With six stretches on each, chance alone would put all of the kernel's before all of the ring's in one
/// of 924 trials. A trial that the ring wins costs 10 ms on the kernel: 1 %
/// of the time at first, and soon far less.
pub const ORDINARY: Temper = Temper {
    events: 200,
    window: 50_000,
    settle: 2_000,
    stretch: 8_000,
    messages: 32,
    longest: 100_000,
    gain: 115,
    stretches: 12,
    hold: 1_000_000,
    pause: 1_000_000,
};

/// For tests: the kernel is tried at every occasion, always wins, and not for long.
pub const EAGER: Temper = Temper {
    events: 1,
    window: 0,
    settle: 0,
    stretch: 0,
    messages: 0,
    longest: 100_000,
    gain: 0,
    stretches: 2,
    hold: 200,
    pause: 200,
};

/// Events that are spread over a longer time than this cost nothing to speak of.
const LONGEST_WINDOW: u64 = 1_000_000;
const MOST_DOUBLINGS: u32 = 6;

/// A connection as seen at some moment; everything but the time counts from its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sight {
    pub now: u64,
    /// Sleeps of ours on the ring and wake-ups of the peer; on the kernel, calls.
    pub events: u32,
    pub messages: u64,
    pub bytes: u64,
}

/// Where the connection shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    Ring,
    /// On the kernel, to see how it does there.
    Trial,
    /// On the kernel, which is faster.
    Kernel,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Counting what has happened since then.
    Watch(Sight),
    /// The ring has won, or nobody: no trial before this time.
    Rest(u64),
    Trial(Trial),
    /// The kernel has won; until this time.
    Away(u64),
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Ring and kernel take turns as in the Thue-Morse sequence, RKKRKRRKKRRK: what the program does by
    /// turns, in whatever rhythm, does not fall in step with that.
    stretch: u32,
    begin: u64,
    /// Where measuring began, after settling.
    from: Option<Sight>,
    /// As in [`GuardVerdict`].
    ring: u64,
    kernel: u64,
}

/// What a stretch has come to.
enum Stretch {
    GoesOn,
    Rate(u64),
    /// Too little happened, or too late.
    Useless,
}

impl Trial {
    fn new(now: u64) -> Trial {
        Trial {
            stretch: 0,
            begin: now,
            from: None,
            ring: 0,
            kernel: u64::MAX,
        }
    }

    fn verdict(&self) -> GuardVerdict {
        GuardVerdict {
            ring: self.ring,
            kernel: self.kernel,
        }
    }

    fn on_kernel(&self) -> bool {
        self.stretch.count_ones() % 2 == 1
    }

    fn measure(&mut self, temper: &Temper, sight: Sight) -> Stretch {
        let Some(from) = self.from else {
            return self.settle(temper, sight);
        };
        let time = sight.now.saturating_sub(from.now);
        let messages = sight.messages.saturating_sub(from.messages);
        if time > temper.longest {
            return Stretch::Useless;
        }
        if time < temper.stretch.max(1) {
            return Stretch::GoesOn;
        }
        let bytes = u128::from(sight.bytes.saturating_sub(from.bytes));
        let rate = bytes * 1_000_000 / u128::from(time);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        // The kernel needs no messages to lose.
        let lost = self.on_kernel() && !self.is_won_with(temper, rate);
        match messages < temper.messages && !lost {
            true => Stretch::GoesOn,
            false => Stretch::Rate(rate),
        }
    }

    fn settle(&mut self, temper: &Temper, sight: Sight) -> Stretch {
        let time = sight.now.saturating_sub(self.begin);
        if time > temper.longest {
            return Stretch::Useless;
        }
        if time >= temper.settle {
            self.from = Some(sight);
        }
        Stretch::GoesOn
    }

    /// A stretch is over; `false`: the kernel has not won it.
    fn note(&mut self, temper: &Temper, rate: u64) -> bool {
        if self.on_kernel() {
            self.kernel = self.kernel.min(rate);
        } else {
            self.ring = self.ring.max(rate);
        }
        self.is_won_with(temper, self.kernel)
    }

    /// Would this rate on the kernel be a clear gain?
    fn is_won_with(&self, temper: &Temper, kernel: u64) -> bool {
        u128::from(kernel) * 100 >= u128::from(self.ring) * u128::from(temper.gain)
    }
}

/// What a trial has measured, in bytes a second: the most on the ring, the least on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardVerdict {
    pub ring: u64,
    pub kernel: u64,
}

/// What is known about one connection.
#[derive(Debug)]
pub struct Mind {
    temper: &'static Temper,
    phase: Phase,
    /// Trials in a row that left it on the ring, and that the kernel won.
    rests: u32,
    holds: u32,
    /// The result of a trial, until it is told.
    pub verdict: Option<GuardVerdict>,
}

impl Mind {
    pub fn new(temper: &'static Temper) -> Mind {
        Mind {
            temper,
            phase: Phase::Rest(0),
            rests: 0,
            holds: 0,
            verdict: None,
        }
    }

    /// Is every event worth a look at the clock?
    pub fn is_watching_closely(&self) -> bool {
        matches!(self.phase, Phase::Trial(_)) || self.temper.events == 1
    }

    /// Where to be from now on.
    pub fn decide(&mut self, sight: Sight) -> Station {
        match self.phase {
            Phase::Rest(until) if sight.now >= until => self.phase = Phase::Watch(sight),
            Phase::Watch(since) => self.watch(since, sight),
            Phase::Trial(trial) => self.go_on(trial, sight),
            // The kernel must win anew to keep it.
            Phase::Away(until) if sight.now >= until => {
                self.phase = Phase::Trial(Trial::new(sight.now));
            }
            Phase::Rest(_) | Phase::Away(_) => {}
        }
        match self.phase {
            Phase::Away(_) => Station::Kernel,
            Phase::Trial(trial) if trial.on_kernel() => Station::Trial,
            _ => Station::Ring,
        }
    }

    fn watch(&mut self, since: Sight, sight: Sight) {
        let time = sight.now.saturating_sub(since.now);
        let events = u64::from(sight.events.wrapping_sub(since.events));
        let messages = sight.messages.saturating_sub(since.messages);
        if time > LONGEST_WINDOW {
            self.phase = Phase::Watch(sight);
        } else if events >= u64::from(self.temper.events) && time >= self.temper.window {
            // A third of the calls: where one end spins or polls, only the other sleeps.
            self.phase = match events * 3 >= messages {
                true => Phase::Trial(Trial::new(sight.now)),
                false => Phase::Watch(sight),
            };
        }
    }

    fn go_on(&mut self, mut trial: Trial, sight: Sight) {
        self.phase = match trial.measure(self.temper, sight) {
            Stretch::GoesOn => Phase::Trial(trial),
            Stretch::Useless => self.rest(sight.now),
            Stretch::Rate(rate) if trial.note(self.temper, rate) => self.next(trial, sight.now),
            Stretch::Rate(_) => {
                self.verdict = Some(trial.verdict());
                self.holds = 0;
                self.rest(sight.now)
            }
        };
    }

    fn next(&mut self, trial: Trial, now: u64) -> Phase {
        if trial.stretch + 1 < self.temper.stretches {
            return Phase::Trial(Trial {
                stretch: trial.stretch + 1,
                begin: now,
                from: None,
                ..trial
            });
        }
        self.verdict = Some(trial.verdict());
        self.rests = 0;
        let hold = self.temper.hold << self.holds;
        self.holds = (self.holds + 1).min(MOST_DOUBLINGS);
        Phase::Away(now.saturating_add(hold))
    }

    fn rest(&mut self, now: u64) -> Phase {
        let pause = self.temper.pause << self.rests;
        self.rests = (self.rests + 1).min(MOST_DOUBLINGS);
        Phase::Rest(now.saturating_add(pause))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A connection that makes calls of 64 B, so many microseconds apart on ring and kernel; `events`
    /// of 10 calls on the ring sleep.
    struct Line {
        mind: Mind,
        sight: Sight,
        station: Station,
        /// Microseconds on ring, in trials, and on the kernel; and how often it went to the last two.
        spent: [u64; 3],
        entered: [u32; 3],
    }

    impl Line {
        fn new() -> Line {
            Line {
                mind: Mind::new(&ORDINARY),
                sight: Sight::default(),
                station: Station::Ring,
                spent: [0; 3],
                entered: [0; 3],
            }
        }

        fn call(&mut self, time: u64, event: bool) {
            self.sight.now += time;
            self.spent[self.station as usize] += time;
            self.sight.messages += 1;
            self.sight.bytes += 64;
            if event || self.station != Station::Ring {
                self.sight.events += 1;
                let station = self.mind.decide(self.sight);
                if station != self.station {
                    self.entered[station as usize] += 1;
                }
                self.station = station;
            }
        }

        fn run(&mut self, seconds: u64, ring: u64, kernel: u64, events: u64) {
            let end = self.sight.now + seconds * 1_000_000;
            while self.sight.now < end {
                let time = match self.station {
                    Station::Ring => ring,
                    Station::Trial | Station::Kernel => kernel,
                };
                self.call(time, self.sight.messages % 10 < events);
            }
        }
    }

    #[test]
    fn who_seldom_sleeps_is_never_tried() {
        let mut line = Line::new();
        line.run(30, 5, 1, 3);
        assert_eq!(line.entered, [0; 3]);
    }

    #[test]
    fn who_sleeps_and_gains_is_tried_seldom_and_stays() {
        let mut line = Line::new();
        line.run(60, 10, 12, 10);
        assert_eq!(line.entered[2], 0);
        assert!((4..=7).contains(&line.entered[1]), "{:?}", line.entered);
        assert!(line.spent[1] * 500 < line.spent[0], "{:?}", line.spent);
    }

    #[test]
    fn a_small_gain_is_none() {
        let mut line = Line::new();
        line.run(30, 11, 10, 10);
        assert_eq!(line.entered[2], 0);
    }

    #[test]
    fn who_loses_goes_to_the_kernel_and_stays_there_most_of_the_time() {
        let mut line = Line::new();
        line.run(60, 20, 10, 10);
        assert!(line.spent[2] * 100 > 95 * 60_000_000, "{:?}", line.spent);
        assert!((5..=7).contains(&line.entered[2]), "{:?}", line.entered);
    }

    #[test]
    fn it_comes_back_when_the_ring_is_better_again() {
        let mut line = Line::new();
        line.run(10, 20, 10, 10);
        assert_eq!(line.station, Station::Kernel);
        line.run(10, 5, 10, 10);
        assert_eq!(line.station, Station::Ring);
        assert_eq!(line.mind.holds, 0);
        line.run(120, 20, 10, 10);
        assert_eq!(line.station, Station::Kernel);
    }

    #[test]
    fn phases_of_the_program_move_nothing() {
        for length in 1..60 {
            let mut line = Line::new();
            let end = 20_000_000;
            while line.sight.now < end {
                let quick = (line.sight.now / (length * 1000)).is_multiple_of(2);
                line.call(if quick { 5 } else { 20 }, true);
            }
            assert_eq!(line.entered[2], 0, "{length} ms");
        }
    }

    #[test]
    fn an_idle_stretch_is_no_verdict() {
        let mut line = Line::new();
        while line.station == Station::Ring {
            line.call(10, true);
        }
        line.call(3_600_000_000, true);
        assert_eq!((line.station, line.entered[2]), (Station::Ring, 0));
    }

    #[test]
    fn a_kernel_that_stalls_has_lost_at_once() {
        let mut line = Line::new();
        line.run(5, 10, 5_000, 10);
        assert_eq!(line.entered[2], 0);
        assert!(
            line.spent[1] <= 20_000 * u64::from(line.entered[1]),
            "{:?}",
            line.spent
        );
    }

    #[test]
    fn too_few_messages_are_no_verdict() {
        let mut line = Line::new();
        line.run(5, 20_000, 10_000, 10);
        assert_eq!(line.entered, [0; 3]);
    }

    /// What may happen between two looks: the time, events, messages and bytes, each of any magnitude.
    fn any_step() -> impl Strategy<Value = Sight> {
        let some = || (any::<u64>(), 24u32..64).prop_map(|(number, shift)| number >> shift);
        (some(), any::<u32>(), some(), some()).prop_map(|(now, events, messages, bytes)| Sight {
            now,
            events,
            messages,
            bytes,
        })
    }

    proptest! {
        /// Whatever is fed to it, nothing overflows, and every stay on the kernel ends.
        #[test]
        fn any_input_is_survived(steps in vec(any_step(), 1..500), eager: bool) {
            let mut mind = Mind::new(if eager { &EAGER } else { &ORDINARY });
            let mut sight = Sight::default();
            for step in steps {
                sight = Sight {
                    now: sight.now + step.now,
                    events: sight.events.wrapping_add(step.events),
                    messages: sight.messages + step.messages,
                    bytes: sight.bytes + step.bytes,
                };
                mind.decide(sight);
            }
            // The longest hold, then a trial without progress.
            for _ in 0..2 {
                sight.now += 64 * ORDINARY.hold + 1;
                mind.decide(sight);
            }
            prop_assert_eq!(mind.decide(sight), Station::Ring);
        }
    }
}
