//! What is measured: a program, a message size, and how its figure reads.

use serde::Serialize;

/// The programs that the scenarios run, and that an installation must have.
pub const PROGRAMS: [&str; 2] = ["pingpong", "stream"];

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Microseconds per round trip.
    PingPong,
    /// Bytes per second.
    Stream,
}

pub struct Scenario {
    pub kind: Kind,
    pub size: u64,
}

const fn ping_pong(size: u64) -> Scenario {
    Scenario {
        kind: Kind::PingPong,
        size,
    }
}

const fn stream(size: u64) -> Scenario {
    Scenario {
        kind: Kind::Stream,
        size,
    }
}

pub const SCENARIOS: [Scenario; 8] = [
    ping_pong(1),
    ping_pong(64),
    ping_pong(1 << 10),
    ping_pong(16 << 10),
    stream(64),
    stream(1 << 10),
    stream(16 << 10),
    stream(256 << 10),
];

/// Below this size a stream's figure reads in messages, from it on in bytes.
const SMALL: u64 = 4 << 10;

impl Scenario {
    pub fn size_name(&self) -> String {
        match self.size {
            size if size >= 1 << 10 => format!("{} KiB", size >> 10),
            size => format!("{size} B"),
        }
    }

    pub fn name(&self) -> String {
        let kind = match self.kind {
            Kind::PingPong => "ping-pong",
            Kind::Stream => "stream",
        };
        format!("{kind} {}", self.size_name())
    }

    /// Whether figure `a` is better than `b`.
    pub fn better(&self, a: f64, b: f64) -> bool {
        self.speed_up(b, a) > 1.0
    }

    /// How many times better `new` is than `old`.
    pub fn speed_up(&self, old: f64, new: f64) -> f64 {
        match self.kind {
            Kind::PingPong => old / new,
            Kind::Stream => new / old,
        }
    }

    pub fn figure_text(&self, figure: f64) -> String {
        match self.kind {
            Kind::PingPong => format!("{figure:.2} us"),
            Kind::Stream if self.size < SMALL => {
                format!("{:.2} M msg/s", figure / self.size as f64 / 1e6)
            }
            Kind::Stream => format!("{:.2} GB/s", figure / 1e9),
        }
    }

    pub fn unit(&self) -> &'static str {
        match self.kind {
            Kind::PingPong => "us per round trip",
            Kind::Stream => "bytes per second",
        }
    }

    /// The unit that CPU time is given per.
    pub fn cpu_unit(&self) -> &'static str {
        match self.kind {
            Kind::PingPong => "million round trips",
            Kind::Stream => "GB",
        }
    }

    /// How many of those units `messages` make.
    pub fn cpu_units(&self, messages: u64) -> f64 {
        match self.kind {
            Kind::PingPong => messages as f64 / 1e6,
            Kind::Stream => (messages * self.size) as f64 / 1e9,
        }
    }
}
