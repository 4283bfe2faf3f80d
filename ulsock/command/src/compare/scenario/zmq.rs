//! ZeroMQ over TCP, by a small program of ours in C: questions and answers (REQ and REP), and messages one
//! way (PUSH and PULL). Unix sockets (ipc) are the reference.

use serde::Deserialize;

use super::source::Source;
use super::text::json_line;
use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, size_text};
use crate::compare::programs::{need, need_header};
use crate::compare::usage::End;

pub const SCENARIO: Scenario = Scenario {
    name: "zmq",
    title: "ZeroMQ: round trips (REQ, REP) and messages one way (PUSH, PULL)",
    needs: &[need("gcc", "gcc"), need_header("zmq.h", "libzmq3-dev")],
    cases,
    ..Scenario::DEFAULT
};

const SOURCE: Source = Source {
    file: "zmq.c",
    text: include_str!("zmq.c"),
    compiler: "gcc",
    words: "-O2 -o zmq zmq.c -lzmq",
    made: "zmq",
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    RoundTrips,
    OneWay,
}

struct Messages {
    pattern: Pattern,
    size: u64,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    let quick = [(Pattern::RoundTrips, 64), (Pattern::OneWay, 64)];
    let full = [
        (Pattern::RoundTrips, 64),
        (Pattern::RoundTrips, 16 << 10),
        (Pattern::OneWay, 64),
        (Pattern::OneWay, 1 << 10),
        (Pattern::OneWay, 16 << 10),
    ];
    effort.cases(&quick, &full, |(pattern, size)| Messages { pattern, size })
}

impl Messages {
    /// About as many as kernel TCP carries in the time.
    fn count(&self, bout: &Bout) -> f64 {
        let per_second = match self.pattern {
            Pattern::RoundTrips => 12e3,
            Pattern::OneWay => 1.2e9 / (self.size as f64 + 500.0),
        };
        bout.count(per_second, 100.0)
    }
}

impl Case for Messages {
    fn lines(&self) -> Vec<Line> {
        let size = size_text(self.size);
        let line = match self.pattern {
            Pattern::RoundTrips => {
                Line::new(format!("round trips, {size}"), Unit::Micros, Per::Million)
            }
            Pattern::OneWay => Line::new(
                format!("one way, {size}"),
                Unit::Messages(self.size),
                Per::Gigabyte,
            ),
        };
        vec![line]
    }

    /// One way over ipc, a few runs in a hundred never end, without ulsock (libzmq 4.3.4).
    fn references(&self) -> Vec<Contender> {
        match self.pattern {
            Pattern::RoundTrips => vec![Contender::Unix],
            Pattern::OneWay => Vec::new(),
        }
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let program = SOURCE.compiled(bout.stage)?;
        let (server, client) = match self.pattern {
            Pattern::RoundTrips => ("rep", "req"),
            Pattern::OneWay => ("push", "pull"),
        };
        let endpoint = bout.either("tcp://{host}:{port}", "ipc://{path}");
        let count = self.count(bout);
        let command = |end, role: &str| {
            let mut command = bout.stage.command(bout.how, end, &program);
            command.args([role, &bout.fill(endpoint)]);
            command.args([self.size.to_string(), count.to_string()]);
            command
        };
        let server = command(End::Server, server);
        let ran = bout.fight(server, command(End::Client, client), Stop::Itself)?;
        let printed: ZmqPrinted = json_line(&ran.output)?;
        let bytes = printed.messages * self.size as f64;
        Ok(match self.pattern {
            Pattern::RoundTrips => {
                let micros = printed.seconds * 1e6 / printed.messages;
                Reading::new(micros, ran, printed.messages / 1e6)
            }
            Pattern::OneWay => Reading::new(bytes / printed.seconds, ran, bytes / 1e9),
        })
    }
}

#[derive(Deserialize)]
struct ZmqPrinted {
    messages: f64,
    seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        let printed: ZmqPrinted = json_line(include_str!("recorded/zmq.txt")).expect("figures");
        assert_eq!([printed.messages, printed.seconds], [12e3, 0.547113]);
    }
}
