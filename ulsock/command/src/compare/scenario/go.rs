//! Programs of Go, which make their system calls without libc: round trips by package net, net/http at both ends, and a
//! client of redis. They are built at their first use.

use rustix::process::Signal;
use serde::Deserialize;

use super::source::Source;
use super::text::json_line;
use super::{Case, Chart, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, count_text, size_text};
use crate::compare::programs::{Need, need};
use crate::compare::usage::End;

/// A C compiler, too: without it Go links programs without libc, into which no library is loaded.
const COMPILERS: &[Need] = &[need("go", "golang-go"), need("gcc", "gcc")];

pub const PING_PONG: Scenario = Scenario {
    name: "go-ping-pong",
    title: "Go: round trips, one at a time, a goroutine at each end (mean time)",
    needs: COMPILERS,
    chart: Chart::Sizes,
    cases: |effort| effort.cases(&[64], &[64, 1 << 10, 16 << 10], |size| Trips { size }),
    ..Scenario::DEFAULT
};

pub const HTTP: Scenario = Scenario {
    name: "go-http",
    title: "Go: net/http at both ends, keep-alive, a page of 612 B",
    needs: COMPILERS,
    cases: |effort| effort.cases(&[16], &[1, 16, 100], |connections| Pages { connections }),
    ..Scenario::DEFAULT
};

pub const REDIS: Scenario = Scenario {
    name: "go-redis",
    title: "Go: a client of redis, GET, one at a time on each connection",
    needs: &[
        need("go", "golang-go"),
        need("gcc", "gcc"),
        need("redis-server", "redis-server"),
    ],
    cases: |effort| effort.cases(&[1, 16], &[1, 16, 50], |connections| Gets { connections }),
    ..Scenario::DEFAULT
};

const PAIRS: Source = Source {
    file: "pairs.go",
    text: include_str!("pairs.go"),
    compiler: "go",
    words: "build -o pairs pairs.go",
    made: "pairs",
};

const PAGES: Source = Source {
    file: "pages.go",
    text: include_str!("pages.go"),
    compiler: "go",
    words: "build -o pages pages.go",
    made: "pages",
};

struct Trips {
    size: u64,
}

struct Pages {
    connections: u32,
}

struct Gets {
    connections: u32,
}

/// One end by a program that was built.
fn end(
    bout: &Bout,
    source: &Source,
    end: End,
    words: &str,
) -> Result<std::process::Command, String> {
    let program = source.compiled(bout.stage)?;
    let mut command = bout.stage.command(bout.how, end, program);
    command.args(bout.fill(words).split_whitespace());
    Ok(command)
}

fn requests(connections: u32) -> Vec<Line> {
    let label = count_text(connections.into(), "connection");
    vec![Line::new(label, Unit::PerSecond("requests"), Per::Million)]
}

impl Case for Trips {
    fn lines(&self) -> Vec<Line> {
        vec![Line::new(size_text(self.size), Unit::Micros, Per::Million).at(self.size)]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let count = bout.count(25e3, 100.0);
        let server = end(bout, &PAIRS, End::Server, "server {port}")?;
        let words = format!("trips {{host}} {{port}} {} {count} 1", self.size);
        let client = end(bout, &PAIRS, End::Client, &words)?;
        let ran = bout.fight(server, client, Stop::Itself)?;
        let printed: GoPrinted = json_line(&ran.output)?;
        let micros = printed.seconds * 1e6 / printed.messages;
        Ok(Reading::new(micros, ran, printed.messages / 1e6))
    }
}

impl Case for Pages {
    fn lines(&self) -> Vec<Line> {
        requests(self.connections)
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let count = bout.count(15e3, f64::from(self.connections) * 20.0);
        let server = end(bout, &PAGES, End::Server, "server {port}")?;
        let words = format!("get {{host}} {{port}} {count} {}", self.connections);
        let client = end(bout, &PAGES, End::Client, &words)?;
        let ran = bout.fight(server, client, Stop::Signal(Signal::TERM))?;
        let printed: GoPrinted = json_line(&ran.output)?;
        let rate = printed.messages / printed.seconds;
        Ok(Reading::new(rate, ran, printed.messages / 1e6))
    }
}

impl Case for Gets {
    fn lines(&self) -> Vec<Line> {
        requests(self.connections)
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let count = bout.count(30e3, f64::from(self.connections) * 20.0);
        let listen = "--port {port} --bind {host}";
        let mut server = bout.server("redis-server", listen)?;
        server.args(["--save", "", "--appendonly", "no", "--protected-mode", "no"]);
        let words = format!("get {{host}} {{port}} {count} {}", self.connections);
        let client = end(bout, &PAIRS, End::Client, &words)?;
        let ran = bout.fight(server, client, Stop::Signal(Signal::TERM))?;
        let printed: GoPrinted = json_line(&ran.output)?;
        let rate = printed.messages / printed.seconds;
        Ok(Reading::new(rate, ran, printed.messages / 1e6))
    }
}

#[derive(Deserialize)]
struct GoPrinted {
    messages: f64,
    seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        let printed: GoPrinted = json_line(include_str!("recorded/go.txt")).expect("figures");
        assert_eq!([printed.messages, printed.seconds], [25_000.0, 0.512345]);
        let text = "panic: dial tcp 127.0.0.1:1: connect: connection refused";
        assert!(json_line::<GoPrinted>(text).is_err());
    }
}
