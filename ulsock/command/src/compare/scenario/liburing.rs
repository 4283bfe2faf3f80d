//! A server that works by entries of an io_uring alone, as liburing's examples do, in C: it accepts, receives and sends back.

use serde::Deserialize;

use super::source::Source;
use super::text::json_line;
use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::programs::{need, need_header};
use crate::compare::usage::End;

pub const SCENARIO: Scenario = Scenario {
    name: "liburing",
    title: "An echo server on an io_uring (liburing), 64 B",
    needs: &[
        need("gcc", "gcc"),
        need_header("liburing.h", "liburing-dev"),
    ],
    cases,
    ..Scenario::DEFAULT
};

const SOURCE: Source = Source {
    file: "liburing.c",
    text: include_str!("liburing.c"),
    compiler: "gcc",
    words: "-O2 -o liburing liburing.c -luring",
    made: "liburing",
};

struct Echo {
    connections: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&[1, 50], &[1, 8, 50, 200], |connections| Echo {
        connections,
    })
}

impl Case for Echo {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.connections.into(), "connection");
        vec![Line::new(
            label,
            Unit::PerSecond("round trips"),
            Per::Million,
        )]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let program = SOURCE.compiled(bout.stage)?;
        let connections = self.connections.to_string();
        // About as many as kernel TCP makes in the time.
        let per_second = if self.connections == 1 { 40e3 } else { 140e3 };
        let count = bout.count(per_second, f64::from(self.connections) * 20.0);
        let command = |end, role| {
            let mut command = bout.stage.command(bout.how, end, &program);
            let words = format!("{role} {{host}} {{port}} {connections}");
            command.args(bout.fill(&words).split(' '));
            command
        };
        let server = command(End::Server, "serve");
        let mut client = command(End::Client, "ask");
        client.arg(format!("{count:.0}"));
        let ran = bout.fight(server, client, Stop::Itself)?;
        let printed: Printed = json_line(&ran.output)?;
        let rate = printed.messages / printed.seconds;
        Ok(Reading::new(rate, ran, printed.messages / 1e6))
    }
}

#[derive(Deserialize)]
struct Printed {
    messages: f64,
    seconds: f64,
}
