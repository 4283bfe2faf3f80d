//! What programs of Unix sockets have beside what all have: kinds of connections, descriptors and credentials beside
//! the bytes, names, full backlogs.

use super::{CONNECTIONS, Generator, Link};
use crate::differ::names::{ABSTRACT, OPTIONS, PAIR, PATH};
use crate::differ::program::Step;

/// The names of second ends, where both are in one process, by the name of the first.
const SECOND_ENDS: [i64; CONNECTIONS as usize] = [10, 11, 13, 14];
/// Options that mean something on a Unix socket, or are refused there in a way of their own.
const USUAL_OPTIONS: [&str; 16] = [
    "SO_PASSCRED",
    "SO_PASSCRED",
    "SO_PEERCRED",
    "SO_PEEK_OFF",
    "SO_PEEK_OFF",
    "SO_PASSRIGHTS",
    "SO_INQ",
    "SO_RCVLOWAT",
    "SO_SNDBUF",
    "SO_RCVTIMEO",
    "SO_TYPE",
    "SO_DOMAIN",
    "SO_PROTOCOL",
    "SO_ACCEPTCONN",
    "SO_ERROR",
    "TCP_NODELAY",
];

impl Generator {
    /// A new connection. Few are of TCP: sets and polls then have members of both kinds.
    pub(super) fn unix_link(&mut self) {
        let fd = self.links.len() as i64;
        if fd >= CONNECTIONS {
            return;
        }
        match self.rng.below(20) {
            0..=7 => self.unix_named_link(PATH),
            8..=11 => self.unix_named_link(ABSTRACT),
            12..=13 => self.pair_of_two(fd),
            14..=15 => self.pair_of_one(fd),
            16..=18 if !self.forked[0] => self.pair_with_child(fd),
            16..=18 => self.pair_of_one(fd),
            _ => self.link(),
        }
    }

    /// The kind of the messages, and enough of them to be accelerated as a rule.
    fn unix_kind(&mut self, step: Step, over: i64) -> Step {
        let step = step.with("over", over);
        let step = match self.chance(25) {
            true => step.with("packets", 1),
            false => step,
        };
        match self.chance(90) {
            true => step.with("rounds", 8),
            false => step.with("rounds", self.rng.below(4) as i64),
        }
    }

    fn unix_named_link(&mut self, over: i64) {
        let (fd, here) = (self.links.len() as i64, self.rng.below(2));
        let step = Step::new(here, 0, "link")
            .with("fd", fd)
            .with("peer", 1 - here as i64)
            .with("peerfd", fd);
        let mut step = self.unix_kind(step, over);
        if self.chance(15) {
            step = step.with("bound", 20 + fd);
        }
        if self.chance(12) {
            step = self.said_before(step, 1 - here);
        }
        self.steps.push(step);
        self.links.push(Link {
            unix: true,
            ends: [(here, fd), (1 - here, fd)],
        });
    }

    /// A pair whose second end is passed to the other process.
    fn pair_of_two(&mut self, fd: i64) {
        let here = self.rng.below(2);
        let step = Step::new(here, 0, "link")
            .with("fd", fd)
            .with("peer", 1 - here as i64)
            .with("peerfd", fd);
        let step = self.unix_kind(step, PAIR);
        self.steps.push(step);
        self.links.push(Link {
            unix: true,
            ends: [(here, fd), (1 - here, fd)],
        });
    }

    fn pair_of_one(&mut self, fd: i64) {
        let (here, other) = (self.rng.below(2), SECOND_ENDS[fd as usize]);
        let step = Step::new(here, 0, "link")
            .with("fd", fd)
            .with("peer", here as i64)
            .with("peerfd", other);
        let step = self.unix_kind(step, PAIR);
        self.steps.push(step);
        self.links.push(Link {
            unix: true,
            ends: [(here, fd), (here, other)],
        });
    }

    /// The classic one: a fork after it, and each process closes the other's end, as a rule.
    fn pair_with_child(&mut self, fd: i64) {
        let other = SECOND_ENDS[fd as usize];
        let step = Step::new(0, 0, "socketpair")
            .with("to", fd)
            .with("other", other);
        let Step { args, .. } = self.unix_kind(Step::new(0, 0, ""), PAIR);
        let (rounds, kind): (Vec<_>, Vec<_>) =
            args.into_iter().partition(|(key, _)| key == "rounds");
        let step = kind
            .into_iter()
            .fold(step, |step, (key, value)| step.with(&key, value));
        self.steps.push(step);
        self.steps.push(Step::new(0, 0, "fork"));
        self.forked[0] = true;
        if self.chance(85) {
            self.steps.push(Step::new(0, 0, "close").with("fd", other));
            self.steps.push(Step::new(2, 0, "close").with("fd", fd));
        }
        let talk = Step::new(0, 0, "talk")
            .with("fd", fd)
            .with("peer", 2)
            .with("peerfd", other);
        self.steps
            .push(talk.with("rounds", rounds.first().map_or(8, |(_, value)| *value)));
        self.links.push(Link {
            unix: true,
            ends: [(0, fd), (2, other)],
        });
    }

    /// A call, or several that belong together, that only programs of Unix sockets have.
    pub(super) fn unix(&mut self) {
        match self.rng.below(10) {
            0..=4 => self.attached(),
            5..=6 => self.unix_option(),
            7 => self.unread_end(),
            8 => self.full(),
            _ => self.file(),
        }
    }

    /// Bytes, bytes with something beside them, and receives that reach across.
    fn attached(&mut self) {
        let link = self.links[self.rng.below(self.links.len())];
        let from = self.rng.below(2);
        let [(sender, out), (receiver, into)] = [link.ends[from], link.ends[1 - from]];
        if self.chance(40) {
            self.short_send(sender, out);
        }
        let (call, thread) = (
            self.rng.pick(&["sendmsg", "sendmsg", "sendmmsg"]),
            self.thread(),
        );
        let mut step = Step::new(sender, thread, call)
            .with("fd", out)
            .with("len", self.length(100))
            .with("seed", self.rng.below(1000) as i64)
            .with("flags", self.send_flags());
        if call == "sendmmsg" {
            step = step.with("count", 1 + self.rng.below(3) as i64);
        }
        if self.chance(80) {
            step = step.with(
                "rights",
                self.rng.pick(&[1, 1, 1, 1, 2, 3, 0, -1, 253, 254]),
            );
        }
        if step.find("rights").is_none() || self.chance(15) {
            step = step.with("credentials", self.rng.pick(&[0, 0, 0, 1]));
        }
        if call == "sendmsg" && step.get("rights") == 1 && self.chance(10) {
            step = step.with("whatfd", self.rng.pick(&[0, 1, 8]));
        }
        self.steps.push(step);
        if self.chance(40) {
            self.short_send(sender, out);
        }
        for _ in 0..1 + self.rng.below(3) {
            self.attached_receive(receiver, into);
        }
    }

    fn short_send(&mut self, actor: usize, fd: i64) {
        let thread = self.thread();
        let step = Step::new(actor, thread, "send").with("fd", fd);
        let step = step
            .with("len", self.length(60))
            .with("seed", self.rng.below(1000) as i64)
            .with("flags", i64::from(libc::MSG_DONTWAIT));
        self.steps.push(step);
    }

    fn attached_receive(&mut self, actor: usize, fd: i64) {
        let (call, thread) = (
            self.rng.pick(&["recvmsg", "recvmsg", "recvmmsg", "recv"]),
            self.thread(),
        );
        let step = Step::new(actor, thread, call)
            .with("fd", fd)
            .with("len", self.rng.pick(&[200, 200, 100, 20, 5, 0]))
            .with("flags", self.receive_flags());
        let room = self.rng.pick(&[128, 128, 2000, 2000, 24, 20, 16, 0]);
        let step = match call {
            "recvmsg" => step.with("room", room),
            "recvmmsg" => step
                .with("room", room)
                .with("count", 1 + self.rng.below(3) as i64),
            _ => step,
        };
        let step = match self.chance(10) {
            true => step.with("to", self.rng.pick(&[4, 5])),
            false => step,
        };
        self.steps.push(step);
    }

    fn unix_option(&mut self) {
        let name = self.rng.pick(&USUAL_OPTIONS);
        let option = OPTIONS.iter().position(|option| option.0 == name);
        let call = self.rng.pick(&["getsockopt", "setsockopt", "setsockopt"]);
        let step = self.step(call).with("option", option.unwrap_or(0) as i64);
        let step = match (call, name) {
            ("getsockopt", _) => step,
            (_, "SO_PEEK_OFF") => step.with("value", self.rng.pick(&[0, 0, 1, 5, 100, -1, -2])),
            (_, "SO_RCVLOWAT") => step.with("value", self.rng.pick(&[1, 2, 10, 100, 0])),
            (_, "SO_SNDBUF") => step.with("value", self.rng.pick(&[200_000, 1_000_000])),
            (_, "SO_RCVTIMEO") => step.with("value", self.rng.pick(&[20, 40, 0])),
            _ => step.with("value", self.rng.pick(&[1, 1, 1, 0])),
        };
        self.steps.push(step);
    }

    /// An end that is closed with unread bytes, and what the other sees of it.
    fn unread_end(&mut self) {
        let link = self.links[self.rng.below(self.links.len())];
        let from = self.rng.below(2);
        let [(sender, out), (closer, closed)] = [link.ends[from], link.ends[1 - from]];
        if self.chance(70) {
            self.short_send(sender, out);
        }
        if self.chance(50) {
            self.short_send(closer, closed);
        }
        self.steps
            .push(Step::new(closer, 0, "close").with("fd", closed));
        let poll = Step::new(sender, 0, "poll").with("set", 1 << out);
        self.steps.push(poll.with("events", 0x2005));
        for _ in 0..self.rng.below(4) {
            match self.chance(60) {
                true => self.attached_receive(sender, out),
                false => self.short_send(sender, out),
            }
        }
    }

    /// A direction without room, then with room: how much that is, is not compared.
    fn full(&mut self) {
        let link = self.links[self.rng.below(self.links.len())];
        // Of TCP, what was taken may still be on its way: who waits for room then goes on or not.
        if !link.unix {
            return;
        }
        let from = self.rng.below(2);
        let [(sender, out), (receiver, into)] = [link.ends[from], link.ends[1 - from]];
        let step = |actor, thread, call: &str, fd| Step::new(actor, thread, call).with("fd", fd);
        self.steps.push(step(sender, 0, "fill", out));
        let blocked = self.chance(60);
        if blocked {
            let send = step(sender, 1, "send", out).with("len", 1 + self.length(100));
            self.steps.push(send);
        }
        if self.chance(20) {
            let end = step(receiver, 0, "shutdown", into).with("how", self.rng.below(3) as i64);
            self.steps.push(end);
        }
        self.steps.push(step(receiver, 0, "empty", into));
        let poll = Step::new(sender, 0, "poll").with("set", 1 << out);
        self.steps.push(poll.with("events", 4));
        self.steps.push(step(receiver, 0, "empty", into));
    }

    /// A name that goes, moves, or was there before.
    fn file(&mut self) {
        let (actor, thread, _) = self.who();
        let number = self.rng.pick(&[0, 1, 10, 11, 20]);
        let call = self.rng.pick(&["unlink", "unlink", "rename", "plain_file"]);
        let step = Step::new(actor, thread, call).with("port", number);
        self.steps.push(match call {
            "rename" => step.with("onto", self.rng.below(2) as i64),
            _ => step,
        });
    }

    /// A socket that is not connected, or made by hand.
    pub(super) fn unix_socket(&mut self) {
        let (actor, thread, _) = self.who();
        let fd = self.rng.pick(&[8, 8, 9]);
        let over = self.rng.pick(&[PATH, PATH, PATH, ABSTRACT]);
        let step = |call: &str| Step::new(actor, thread, call);
        let packets = i64::from(self.chance(15));
        match self.rng.below(12) {
            0..=1 => self.steps.push(
                step("socket")
                    .with("to", fd)
                    .with("over", over)
                    .with("packets", packets)
                    .with("nonblock", self.rng.below(2) as i64),
            ),
            2 => {
                let port = self.rng.below(3) as i64 - 1;
                let bind = step("bind").with("fd", fd).with("over", over);
                self.steps.push(bind.with("port", port));
            }
            3..=5 => self.listener(over, packets),
            6 => self
                .steps
                .push(step("listen").with("fd", fd).with("backlog", 1)),
            7..=8 => {
                let connect = step("connect").with("fd", self.rng.pick(&[0, 8, 9]));
                let port = self.rng.pick(&[0, 0, 1, 10, 11, 20]);
                self.steps
                    .push(connect.with("over", over).with("port", port));
            }
            9 => self.steps.push(
                step("socketpair")
                    .with("to", 8)
                    .with("other", 9)
                    .with("over", PAIR)
                    .with("packets", packets)
                    .with("nonblock", self.rng.below(2) as i64),
            ),
            _ => self.steps.push(
                step(self.rng.pick(&["accept", "accept4"]))
                    .with("fd", fd)
                    .with("to", self.rng.pick(&[4, 5]))
                    .with("nonblock", self.rng.below(2) as i64),
            ),
        }
    }

    /// A listener with a short backlog, and more who connect than that.
    fn listener(&mut self, over: i64, packets: i64) {
        let (server, client) = (self.rng.below(2), self.rng.below(2));
        let port = self.rng.below(2) as i64;
        let made = |step: Step, nonblock| {
            step.with("over", over)
                .with("packets", packets)
                .with("nonblock", nonblock)
        };
        let backlog = self.rng.pick(&[0, 0, 1, -1]);
        self.steps
            .push(made(Step::new(server, 0, "socket").with("to", 8), 1));
        let bind = Step::new(server, 0, "bind")
            .with("fd", 8)
            .with("over", over);
        self.steps.push(bind.with("port", port));
        let listen = Step::new(server, 0, "listen").with("fd", 8);
        self.steps.push(listen.with("backlog", backlog));
        for _ in 0..self.rng.below(4) {
            let (thread, waits) = (self.thread(), self.chance(30));
            let socket = Step::new(client, thread, "socket").with("to", 9);
            self.steps.push(made(socket, i64::from(!waits)));
            let connect = Step::new(client, thread, "connect").with("fd", 9);
            self.steps
                .push(connect.with("over", over).with("port", port));
        }
        for _ in 0..self.rng.below(3) {
            let accept = Step::new(server, 0, "accept").with("fd", 8);
            self.steps.push(accept.with("to", self.rng.pick(&[4, 5])));
        }
    }
}
