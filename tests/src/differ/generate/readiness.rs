//! Looking and waiting.

use super::Generator;
use crate::differ::program::Step;

impl Generator {
    pub(super) fn set(&mut self) -> i64 {
        let mut set = 0;
        for slot in [0, 1, 2, 3, 4, 6, 8, 12] {
            // A set that is polled is no longer accelerated.
            let percent = match slot {
                0 => 70,
                6 => 3,
                _ => 25,
            };
            if self.chance(percent) {
                set |= 1 << slot;
            }
        }
        if self.unix && self.chance(25) {
            set |= 1 << 10;
        }
        set
    }

    pub(super) fn timeout(&mut self) -> i64 {
        self.rng.pick(&[0, 0, 0, 0, 0, -1, -1, 3, 15])
    }

    pub(super) fn poll(&mut self) {
        let call = self
            .rng
            .pick(&["poll", "poll", "ppoll", "select", "pselect"]);
        let (actor, thread, _) = self.who();
        let mut step = Step::new(actor, thread, call)
            .with("set", self.set())
            .with("timeout", self.timeout());
        if call.ends_with("poll") {
            let events = self.rng.pick(&[1, 1, 4, 5, 0x2001, 0x2000, 2, 0, 0x23c7]);
            step = step.with("events", events | self.urgent_event());
        } else {
            for key in ["read", "write", "except"] {
                step = step.with(key, self.rng.below(2) as i64);
            }
        }
        if call.starts_with('p') && call != "poll" && self.chance(30) {
            step = step.with("masked", 1);
        }
        self.steps.push(step);
    }

    /// PRI, for programs with urgent data, as a rule.
    fn urgent_event(&mut self) -> i64 {
        match self.urgent && self.chance(60) {
            true => libc::POLLPRI.into(),
            false => 0,
        }
    }

    pub(super) fn epoll(&mut self) {
        let (actor, thread, fd) = self.who();
        let made = |step: &Step| step.call == "epoll_create" && step.actor % 2 == actor % 2;
        if !self.steps.iter().any(made) {
            self.steps
                .push(Step::new(actor, thread, "epoll_create").with("to", 6));
            return self.watch(actor, thread, fd, 6);
        }
        let set = if self.chance(80) { 6 } else { 7 };
        match self.rng.below(20) {
            0 => self.steps.push(
                Step::new(actor, thread, "epoll_create")
                    .with("to", self.rng.clone().pick(&[6, 7, 7])),
            ),
            1..=7 => self.watch(actor, thread, fd, set),
            _ => {
                let call = self.rng.pick(&[
                    "epoll_wait",
                    "epoll_wait",
                    "epoll_wait",
                    "epoll_pwait",
                    "epoll_pwait2",
                ]);
                let mut step = Step::new(actor, thread, call)
                    .with("set", set)
                    .with("timeout", self.timeout());
                if self.chance(10) {
                    step = step.with("max", self.rng.pick(&[1, 2, 0, -1]));
                }
                if call != "epoll_wait" && self.chance(30) {
                    step = step.with("masked", 1);
                }
                self.steps.push(step);
            }
        }
    }

    /// Adds, changes or removes a member.
    pub(super) fn watch(&mut self, actor: usize, thread: usize, fd: i64, set: i64) {
        let op = self.rng.pick(&[1, 1, 1, 3, 3, 2]);
        let mut events = self.rng.pick(&[1, 1, 4, 5, 0x2001, 0x2005, 0, 2]) | self.urgent_event();
        for (bit, percent) in [(1 << 31, 35), (1 << 30, 12), (1 << 28, 5)] {
            if self.chance(percent) {
                events |= bit;
            }
        }
        let fd = if self.chance(4) { 13 - set } else { fd };
        self.steps.push(
            Step::new(actor, thread, "epoll_ctl")
                .with("set", set)
                .with("op", op)
                .with("fd", fd)
                .with("events", events)
                .with("data", fd * 10 + self.rng.below(2) as i64),
        );
    }

    pub(super) fn probe(&mut self) {
        let actor = self.who().0;
        self.steps.push(Step::new(actor, 0, "probe"));
    }
}
