//! Sends and receives of all kinds.

use super::{Generator, LONGEST};
use crate::differ::program::Step;

impl Generator {
    pub(super) fn length(&mut self, most: i64) -> i64 {
        let length = match self.rng.below(20) {
            0 => 0,
            1..=12 => self.rng.size(64) as i64,
            13..=17 => self.rng.size(2048) as i64,
            _ => self.rng.size(16_384) as i64,
        };
        length.min(most)
    }

    pub(super) fn send_flags(&mut self) -> i64 {
        let mut flags = 0;
        for (flag, percent) in [
            (libc::MSG_DONTWAIT, 40),
            (libc::MSG_NOSIGNAL, 30),
            (libc::MSG_OOB, if self.urgent { 25 } else { 0 }),
            (libc::MSG_EOR, 3),
            (libc::MSG_MORE, if self.held_back { 30 } else { 0 }),
            (libc::MSG_DONTROUTE, 2),
            (libc::MSG_ZEROCOPY, 2),
        ] {
            if self.chance(percent) {
                flags |= i64::from(flag);
            }
        }
        flags
    }

    pub(super) fn send_step(&mut self, step: Step) {
        let call = self.rng.pick(&[
            "send",
            "send",
            "send",
            "write",
            "writev",
            "sendmsg",
            "sendmmsg",
            "sendto",
            "sendfile",
            "splice_in",
            "pwrite",
            "pwritev",
            "pwritev2",
        ]);
        let mut step = Step {
            call: call.to_owned(),
            ..step
        };
        let length = self.length(self.budget / 2);
        let seed = self.rng.below(1000) as i64;
        step = step.with("len", length).with("seed", seed);
        let mut copies = 1;
        step = match call {
            "writev" | "pwritev" => step.with("shape", self.shape()),
            "sendmsg" => step
                .with("shape", self.shape())
                .with("flags", self.send_flags()),
            "sendmmsg" => {
                copies = self.rng.below(4) as i64;
                step.with("shape", self.shape())
                    .with("count", copies)
                    .with("flags", self.send_flags())
            }
            "send" => step.with("flags", self.send_flags()),
            "sendto" => {
                let step = step.with("flags", self.send_flags());
                self.odd_room(step)
            }
            "sendfile" => {
                let count = self.length(LONGEST);
                let step = step.with("count", count);
                if self.chance(50) {
                    step.with("offset", self.rng.below(20) as i64)
                } else {
                    step
                }
            }
            "pwritev2" => step
                .with("shape", self.shape())
                .with("offset", self.rng.pick(&[-1, -1, 0]))
                .with("rwf", self.rng.pick(&[0, 0, 8])),
            _ => step,
        };
        self.budget -= length * copies.max(1);
        self.steps.push(step);
    }

    pub(super) fn shape(&mut self) -> i64 {
        self.rng.pick(&[0, 0, 2, 3, 4, 1, 5, 6, 7, 8, 9, 10])
    }

    pub(super) fn send(&mut self) {
        let step = self.step("send");
        self.send_step(step);
    }

    pub(super) fn receive(&mut self) {
        let step = self.step("recv");
        self.receive_step(step);
    }

    pub(super) fn receive_flags(&mut self) -> i64 {
        let mut flags = 0;
        let table = [
            (libc::MSG_DONTWAIT, 60),
            (libc::MSG_PEEK, 15),
            (libc::MSG_WAITALL, 10),
            (libc::MSG_TRUNC, 5),
            (libc::MSG_OOB, if self.urgent { 25 } else { 0 }),
            (libc::MSG_ERRQUEUE, 2),
            (libc::MSG_CMSG_CLOEXEC, 3),
            (libc::MSG_NOSIGNAL, 3),
        ];
        for (flag, percent) in table {
            if self.chance(percent) {
                flags |= i64::from(flag);
            }
        }
        flags
    }

    pub(super) fn receive_step(&mut self, step: Step) {
        let call = self.rng.pick(&[
            "recv",
            "recv",
            "recv",
            "recv",
            "read",
            "readv",
            "recvmsg",
            "recvmmsg",
            "recvfrom",
            "splice_out",
            "pread",
            "preadv",
            "preadv2",
        ]);
        let step = Step {
            call: call.to_owned(),
            ..step
        };
        let length = if self.chance(30) {
            LONGEST
        } else {
            self.length(LONGEST)
        };
        let step = step.with("len", length);
        let step = self.receive_arguments(call, step);
        self.steps.push(step);
    }

    /// What a call that receives takes beside a length.
    fn receive_arguments(&mut self, call: &str, step: Step) -> Step {
        match call {
            "recv" => {
                let step = step.with("flags", self.receive_flags());
                self.odd_claim(step)
            }
            "read" => self.odd_claim(step),
            "recvfrom" => {
                let step = step.with("flags", self.receive_flags());
                self.odd_room(step)
            }
            "readv" | "preadv" => step.with("shape", self.shape()),
            "recvmsg" => {
                let step = step
                    .with("shape", self.shape())
                    .with("flags", self.receive_flags());
                // Around the size of the one piece of control data that a stream brings.
                match self.chance(20) {
                    true => step.with("room", self.rng.pick(&[0, 15, 16, 17, 20, 24])),
                    false => step,
                }
            }
            "recvmmsg" => {
                let wait = if self.chance(30) {
                    i64::from(libc::MSG_WAITFORONE)
                } else {
                    0
                };
                step.with("shape", self.shape())
                    .with("count", self.rng.below(4) as i64)
                    .with("flags", self.receive_flags() | wait)
                    .with("timed", self.rng.below(2) as i64)
                    .with("sec", self.rng.pick(&[0, 0, 5, -1, i64::MAX]))
                    .with(
                        "nsec",
                        self.rng.pick(&[0, 0, 1, -1, 999_999_999, 1_000_000_000]),
                    )
            }
            "preadv2" => step
                .with("shape", self.shape())
                .with("offset", self.rng.pick(&[-1, -1, 0]))
                .with("rwf", self.rng.pick(&[0, 0, 8])),
            _ => step,
        }
    }

    /// A length that no buffer has, now and then.
    fn odd_claim(&mut self, step: Step) -> Step {
        if !self.chance(4) {
            return step;
        }
        step.with(
            "claim",
            self.rng.pick(&[-1, i64::MIN, i64::MAX, 1 << 47, 1 << 40]),
        )
    }

    /// An address of a length that it cannot have, now and then.
    fn odd_room(&mut self, step: Step) -> Step {
        if !self.chance(15) {
            return step;
        }
        step.with("room", self.rng.pick(&[-1, 129, 1000, 2, 0]))
    }

    /// A send at one end, and maybe something else, and a receive at the other.
    pub(super) fn exchange(&mut self) {
        let link = self.links[self.rng.below(self.links.len())];
        let from = self.rng.below(2);
        let [(sender, out), (receiver, into)] = [link.ends[from], link.ends[1 - from]];
        let (first, second) = (self.thread(), self.thread());
        let receive = Step::new(receiver, second, "recv").with("fd", into);
        let before = self.chance(30);
        if before {
            self.receive_step(receive.clone());
        }
        self.send_step(Step::new(sender, first, "send").with("fd", out));
        if !before {
            self.receive_step(receive);
        }
    }
}
