//! The life of sockets: ends, options, duplicates, processes.

use super::Generator;
use crate::differ::names::{OPTIONS, OPTIONS_OF_TCP};
use crate::differ::program::Step;

impl Generator {
    /// Shutdown and close.
    pub(super) fn end(&mut self) {
        let step = self.step("shutdown");
        let step = if self.chance(60) {
            step.with("how", self.rng.pick(&[0, 1, 1, 1, 2, 7]))
        } else {
            Step {
                call: self.rng.pick(&["close", "close", "close_range"]).to_owned(),
                ..step
            }
        };
        self.steps.push(step);
    }

    pub(super) fn option(&mut self) {
        let call = self.rng.pick(&[
            "getsockopt",
            "getsockopt",
            "setsockopt",
            "setsockopt",
            "setsockopt",
            "getfl",
            "setfl",
            "getfd",
            "setfd",
            "FIONREAD",
            "FIONREAD",
            "SIOCOUTQ",
            "FIONBIO",
            "SIOCATMARK",
            "sockatmark",
            "ioctl",
            "getsockname",
            "getpeername",
        ]);
        let call = if self.urgent && self.chance(25) {
            self.rng.pick(&["setown", "SIOCATMARK", "FIONREAD"])
        } else {
            call
        };
        let step = self.step(call);
        let step = match call {
            "setfl" => step.with("fl", self.rng.pick(&[0, i64::from(libc::O_NONBLOCK)])),
            "setfd" => step.with("cloexec", self.rng.below(2) as i64),
            "FIONBIO" => step.with("on", self.rng.below(2) as i64),
            "getsockopt" => {
                let option = self.rng.below(self.options());
                let step = step.with("option", option as i64);
                if self.chance(10) {
                    step.with("length", self.rng.below(9) as i64)
                } else {
                    step
                }
            }
            "setsockopt" => self.set_option(step),
            _ => step,
        };
        self.steps.push(step);
    }

    fn options(&self) -> usize {
        match self.unix {
            true => OPTIONS.len(),
            false => OPTIONS_OF_TCP,
        }
    }

    /// Values that keep small buffers out, and held-back bytes as a rule: what is seen then depends on
    /// timers.
    pub(super) fn set_option(&mut self, step: Step) -> Step {
        let mut option = self.rng.below(self.options());
        for (often, name) in [(self.held_back, "TCP_CORK"), (self.urgent, "SO_OOBINLINE")] {
            if often && self.chance(50) {
                let named = |option: &(&str, i32, i32)| option.0 == name;
                option = OPTIONS.iter().position(named).unwrap_or(option);
            }
        }
        let values: &[i64] = match OPTIONS[option].0 {
            // They would end before the bytes come that are held back.
            "SO_RCVTIMEO" | "SO_SNDTIMEO" if self.held_back => &[0],
            "TCP_CORK" if self.held_back => &[1, 1, 0],
            "SO_RCVTIMEO" | "SO_SNDTIMEO" => &[20, 40, 0, -1],
            "SO_RCVLOWAT" => &[1, 2, 10, 100, 1000, 0, -1],
            "SO_RCVBUF" | "SO_SNDBUF" => &[200_000, 1_000_000],
            "SO_LINGER" => &[0, 0, 1, -1],
            "TCP_CORK" => &[0],
            "TCP_NODELAY" => &[1],
            "SO_DEBUG" | "SO_BUSY_POLL" | "SO_PRIORITY" => &[0],
            "TCP_USER_TIMEOUT" => &[0, 10_000],
            _ => &[0, 1, 1, 7],
        };
        let step = step
            .with("option", option as i64)
            .with("value", self.rng.pick(values));
        if self.chance(5) {
            step.with("length", self.rng.below(5) as i64)
        } else {
            step
        }
    }

    /// Duplicates, and numbers that change hands.
    pub(super) fn name(&mut self) {
        let call = self.rng.pick(&[
            "dup",
            "dup",
            "dup2",
            "dup2",
            "dup3",
            "dupfd",
            "pass",
            "lseek",
            "isatty",
            "fstat",
            "fsync",
            "ftruncate",
        ]);
        let step = self.step(call);
        let to = self.rng.pick(&[4, 5]);
        let step = match call {
            "dup" => step.with("to", to),
            "dupfd" => step
                .with("to", to)
                .with("least", self.rng.pick(&[0, 10, 40, 2000])),
            "dup2" | "dup3" => {
                let onto = self.rng.below(6) as i64;
                if self.chance(40) {
                    step.with("number", self.rng.pick(&[20, 21, 50, -1]))
                        .with("to", to)
                } else {
                    step.with("onto", onto).with("to", onto)
                }
            }
            _ => step,
        };
        let (call, actor) = (step.call.clone(), step.actor);
        self.steps.push(step);
        if call == "pass" {
            let step = Step::new(1 - actor % 2, self.thread(), "take");
            self.steps.push(step.with("to", to));
        }
    }

    pub(super) fn process(&mut self) {
        let actor = self.rng.below(2);
        let thread = self.thread();
        match self.rng.below(20) {
            0..=9 if !self.forked[actor] => {
                self.forked[actor] = true;
                self.steps.push(Step::new(actor, thread, "fork"));
            }
            10..=12 => self.steps.push(Step::new(actor, thread, "exec")),
            13..=15 => self.steps.push(Step::new(actor, thread, "spawn")),
            16..=17 if self.forked[actor] => {
                let call = self.rng.pick(&["exit", "_exit", "exec"]);
                self.steps.push(Step::new(actor + 2, thread, call));
            }
            18 => {
                let call = self.rng.pick(&["exit", "exit", "_exit"]);
                self.steps.push(Step::new(actor, thread, call));
            }
            _ => {}
        }
    }

    /// A socket that is not connected, or made by hand.
    pub(super) fn socket(&mut self) {
        let (actor, thread, _) = self.who();
        let fd = self.rng.pick(&[8, 9]);
        let step = |call: &str| Step::new(actor, thread, call);
        let next = match self.rng.below(9) {
            0 | 1 => step("socket")
                .with("to", fd)
                .with("nonblock", self.rng.below(2) as i64),
            2 | 3 => step("bind")
                .with("fd", fd)
                .with("port", self.rng.below(3) as i64 - 1),
            4 => step("listen").with("fd", fd).with("backlog", 4),
            5 | 6 => {
                let step = step("connect")
                    .with("fd", self.rng.pick(&[0, 8, 8, 9]))
                    .with("port", self.rng.below(2) as i64);
                if self.chance(10) {
                    step.with("unspec", 1)
                } else {
                    step
                }
            }
            _ => step(self.rng.pick(&["accept", "accept4"]))
                .with("fd", fd)
                .with("to", self.rng.pick(&[4, 5]))
                .with("nonblock", self.rng.below(2) as i64),
        };
        self.steps.push(next);
    }
}
