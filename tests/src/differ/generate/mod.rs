//! Random programs from a seed.
//!
//! Any list of steps is a program, since calls that block are noticed and steps of threads that are
//! busy are passed over. What is made here only has to be interesting: most calls go to connections,
//! and what was sent is often received. No direction is given more bytes than a receive window holds.

mod data;
mod readiness;
mod sockets;
mod unix;

use std::fmt;

use super::names::OPTIONS;
use super::program::{Program, Step};
use crate::rng::Rng;

/// What one direction of a connection may be sent, in all: less than a receive window.
const BUDGET: i64 = 30_000;
/// The same of a Unix socket: the kernel counts the memory that messages take, which is several times their bytes, and
/// says from a quarter of the send buffer on that there is no room.
const UNIX_BUDGET: i64 = 12_000;
/// The longest receive; see [`super::compare`] on counts.
const LONGEST: i64 = 16_000;
/// Of a hundred programs, so many use urgent data.
const URGENT: usize = 8;
/// Names 0 to 3 are connections, 4 and 5 duplicates and passed ones, 6 and 7 epoll sets, 8 and 9
/// listeners and new sockets.
const CONNECTIONS: i64 = 4;

/// Whose sockets a program is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// TCP.
    Tcp,
    /// Unix sockets, and a few of TCP beside them.
    Unix,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        })
    }
}

/// The families of a word: `tcp`, `unix` or `both`.
pub fn families(word: &str) -> Option<Vec<Family>> {
    match word {
        "tcp" => Some(vec![Family::Tcp]),
        "unix" => Some(vec![Family::Unix]),
        "both" => Some(vec![Family::Tcp, Family::Unix]),
        _ => None,
    }
}

/// The program of this seed and family. `hand_over`: with calls that only the kernel can serve. A connection with
/// unread bytes then gets a stand-in, since peers are idle here, and a stand-in passes bytes on when its
/// relay gets to it: such programs show differences in time, too.
pub fn program(seed: u64, family: Family, hand_over: bool) -> Program {
    let unix = family == Family::Unix;
    let mut generator = Generator {
        rng: Rng::new(seed, 0),
        steps: Vec::new(),
        links: Vec::new(),
        forked: [false; 2],
        budget: if unix { UNIX_BUDGET } else { BUDGET },
        unix,
        urgent: false,
        held_back: false,
    };
    let hands_over = hand_over && generator.chance(50);
    // A stand-in carries no urgent bytes.
    generator.urgent = !hands_over && generator.chance(URGENT);
    generator.held_back = !unix && !hands_over && generator.chance(3);
    generator.begin();
    if !hands_over && generator.chance(5) {
        generator.small_buffers();
    } else {
        generator.calls();
    }
    keep_determined(&mut generator.steps);
    // A stand-in has addresses of its own.
    generator.steps.retain(|step| match step.call.as_str() {
        "getsockname" | "getpeername" => !hands_over,
        _ => hands_over || !step.hands_over(),
    });
    Program {
        steps: generator.steps,
    }
}

/// Has it nothing that [`program`] would have taken out? A smaller program could else show another difference
/// than the one that was found.
pub fn is_determined(program: &Program) -> bool {
    let mut steps = program.steps.clone();
    keep_determined(&mut steps);
    steps == program.steps
}

/// Takes out what the kernel does not determine, or the manual names as a difference.
fn keep_determined(steps: &mut [Step]) {
    // An edge-triggered member can be told once more when its connection becomes accelerated, as one
    // does later that has exchanged little at first.
    let late = |step: &Step| {
        step.call == "link" && (step.get("rounds") < 8 || step.find("early").is_some())
    };
    let becomes_accelerated = steps.iter().any(late);
    // What the kernel leaves to acknowledgements, and whom it wakes, is so on TCP alone.
    let tcp = steps
        .iter()
        .any(|step| step.call == "link" && step.find("over").is_none());
    let unix = steps.iter().any(|step| step.find("over").is_some());
    let (mut shut, mut ended, mut lowat) = (false, false, 0);
    for step in steps {
        let receives = step.call.starts_with("recv");
        let reads = step.call.starts_with("read") || step.call.starts_with("pread");
        lowat = lowat.max(low_water_mark(step));
        let polls = step.call.ends_with("poll") || step.call.ends_with("select");
        for (key, value) in &mut step.args {
            match key.as_str() {
                "events" if becomes_accelerated => *value &= !(1 << 31),
                // The kernel tells an edge of OUT after each message that the peer of a Unix socket has read.
                "events" if unix && *value >> 31 & 1 == 1 => *value &= !i64::from(libc::POLLOUT),
                // The acknowledgement of a FIN, whenever it comes, wakes a receive of no bytes.
                "len" if tcp && shut && receives => *value = (*value).max(lowat.max(1)),
                // The kernel does not wake who wants fewer than SO_RCVLOWAT says.
                "len" if tcp && (receives || reads) && *value > 0 => *value = (*value).max(lowat),
                "shape" if tcp && shut && receives && matches!(*value, 1 | 7) => *value = 0,
                // An epoll set that is polled can show once too often when a member has ended.
                "set" if ended && polls => *value &= !(1 << 6 | 1 << 7),
                _ => {}
            }
        }
        shut |= step.call == "shutdown" && step.get("how") > 0;
        ended |= matches!(
            step.call.as_str(),
            "shutdown" | "close" | "close_range" | "dup2" | "dup3" | "exit" | "_exit"
        );
    }
}

/// What it sets SO_RCVLOWAT to, or nothing.
fn low_water_mark(step: &Step) -> i64 {
    let option = OPTIONS.get(step.get("option") as usize);
    match step.call == "setsockopt" && option.is_some_and(|option| option.0 == "SO_RCVLOWAT") {
        true => step.get("value"),
        false => 0,
    }
}

/// One connection: actor and name of both ends.
#[derive(Clone, Copy)]
struct Link {
    /// Is it a Unix socket?
    unix: bool,
    ends: [(usize, i64); 2],
}

struct Generator {
    rng: Rng,
    steps: Vec<Step>,
    links: Vec<Link>,
    forked: [bool; 2],
    budget: i64,
    /// Is it about Unix sockets?
    unix: bool,
    /// Does it use urgent data?
    urgent: bool,
    /// Does it use corks and MSG_MORE? Each send then takes as long as the kernel holds bytes back.
    held_back: bool,
}

impl Generator {
    fn calls(&mut self) {
        let length = 6 + self.rng.below(30);
        let theme = self.rng.below(8);
        while self.steps.len() < length {
            self.next(theme);
        }
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.rng.below(100) < percent
    }

    fn begin(&mut self) {
        for _ in 0..self.rng.pick(&[1, 1, 1, 2, 2, 3]) {
            match self.unix {
                true => self.unix_link(),
                false => self.link(),
            }
        }
        for link in self.links.clone() {
            for (actor, fd) in link.ends {
                if self.chance(35) {
                    self.steps.push(
                        Step::new(actor, 0, "setfl")
                            .with("fd", fd)
                            .with("fl", libc::O_NONBLOCK.into()),
                    );
                }
            }
        }
    }

    /// A new connection between A and B, with the names that follow.
    fn link(&mut self) {
        let fd = self.links.len() as i64;
        if fd >= CONNECTIONS {
            return;
        }
        let here = self.rng.below(2);
        let rounds = if self.chance(90) {
            8
        } else {
            self.rng.below(4) as i64
        };
        let mut step = Step::new(here, 0, "link")
            .with("fd", fd)
            .with("peer", 1 - here as i64)
            .with("peerfd", fd)
            .with("rounds", rounds);
        if self.chance(10) {
            step = step.with("v6", 1);
        }
        if self.chance(12) {
            step = self.said_before(step, 1 - here);
        }
        self.steps.push(step);
        self.links.push(Link {
            unix: false,
            ends: [(here, fd), (1 - here, fd)],
        });
    }

    /// A link whose socket is known to an epoll set, or has a second name, before it is connected.
    fn said_before(&mut self, step: Step, dialler: usize) -> Step {
        if self.chance(25) {
            return step.with("dup", 4);
        }
        let made = |step: &Step| step.call == "epoll_create" && step.actor == dialler;
        if !self.steps.iter().any(made) {
            let create = Step::new(dialler, 0, "epoll_create").with("to", 6);
            self.steps.push(create);
        }
        let events = self.rng.pick(&[1, 4, 5, 0x2001, 0x4000_0001, 0]);
        let data = step.get("peerfd") * 10;
        step.with("early", 6)
            .with("events", events)
            .with("data", data)
    }

    fn next(&mut self, theme: usize) {
        if self.unix && self.chance(15) {
            return self.unix();
        }
        // Each program leans towards one kind of calls.
        let lean = [10, 20, 30, 50, 62, 74, 86, 95][theme];
        let kind = if self.chance(25) {
            lean
        } else {
            self.rng.below(100)
        };
        match kind {
            0..=19 => self.exchange(),
            20..=27 => self.send(),
            28..=43 => self.receive(),
            44..=53 => self.poll(),
            54..=67 => self.epoll(),
            68..=73 => self.end(),
            74..=81 => self.option(),
            82..=86 => self.name(),
            87..=89 => self.process(),
            90..=91 => self.signal(),
            92..=93 => self.long(&[1000, 20_000, 100_000, 400_000]),
            94 if self.unix => self.unix_socket(),
            94 => self.socket(),
            _ => self.probe(),
        }
    }

    /// Who makes the next call, on which connection.
    fn who(&mut self) -> (usize, usize, i64) {
        let link = self.links[self.rng.below(self.links.len())];
        let (mut actor, mut fd) = link.ends[self.rng.below(2)];
        if actor < 2 && self.forked[actor] && self.chance(40) {
            actor += 2;
        }
        if self.chance(12) {
            fd = self.rng.pick(&[4, 5, 4, 5, 8, 9, 12]);
        }
        (actor, self.thread(), fd)
    }

    fn thread(&mut self) -> usize {
        self.rng.pick(&[0, 0, 0, 0, 1, 2])
    }

    fn step(&mut self, call: &str) -> Step {
        let (actor, thread, fd) = self.who();
        Step::new(actor, thread, call).with("fd", fd)
    }

    fn signal(&mut self) {
        let (actor, thread, _) = self.who();
        let signal = self.rng.pick(&[libc::SIGUSR1, libc::SIGUSR2]);
        self.steps.push(
            Step::new(actor, 0, "signal")
                .with("thread", thread as i64)
                .with("signal", signal.into()),
        );
    }

    /// Buffers so small that what fits into them is the carrier's own business: all that is compared is
    /// that everything arrives.
    fn small_buffers(&mut self) {
        for _ in 0..3 + self.rng.below(6) {
            let link = self.links[self.rng.below(self.links.len())];
            let (actor, fd) = link.ends[self.rng.below(2)];
            // With a receive buffer smaller than a segment the kernel's transfers take many seconds.
            let (name, value) = self.rng.pick(&[
                ("SO_SNDBUF", 1),
                ("SO_SNDBUF", 3000),
                ("SO_SNDBUF", 10_000),
                ("SO_SNDBUF", 40_000),
                ("SO_RCVBUF", 100_000),
            ]);
            let option = OPTIONS.iter().position(|option| option.0 == name);
            self.steps.push(
                Step::new(actor, 0, "setsockopt")
                    .with("fd", fd)
                    .with("option", option.unwrap_or(0) as i64)
                    .with("value", value),
            );
            self.long(&[1000, 20_000]);
        }
        self.end();
        self.receive();
    }

    fn long(&mut self, totals: &[i64]) {
        let link = self.links[self.rng.below(self.links.len())];
        let from = self.rng.below(2);
        let [(actor, fd), (peer, peerfd)] = [link.ends[from], link.ends[1 - from]];
        let step = Step::new(actor, 0, "bulk")
            .with("fd", fd)
            .with("peer", peer as i64)
            .with("peerfd", peerfd);
        if self.chance(25) {
            self.steps.push(Step {
                call: "flood".to_owned(),
                ..step
            });
        } else {
            let total = self.rng.pick(totals);
            self.steps.push(step.with("total", total));
        }
    }
}
