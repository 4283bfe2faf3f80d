//! redis with its own benchmark: GET, few and many clients, with and without a pipeline.

use super::{Case, Chart, Effort, Line, Reading, Scenario};
use crate::compare::figure::{count_text, Per, Unit};
use crate::compare::programs::{find_or_say, need};
use crate::compare::stage::{Duel, How, Ready, Stage, Stop};
use crate::compare::usage::End;
use rustix::process::Signal;

pub const SCENARIO: Scenario = Scenario {
    name: "redis",
    title: "redis, GET (redis-benchmark)",
    needs: &[
        need("redis-server", "redis-server"),
        need("redis-benchmark", "redis-tools"),
    ],
    chart: Chart::Bars,
    quick: true,
    cases,
};

#[derive(Clone)]
struct Get {
    clients: u32,
    pipeline: u32,
}

const fn get(clients: u32, pipeline: u32) -> Get {
    Get { clients, pipeline }
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    let quick = [get(1, 1), get(50, 1)];
    let full = [get(1, 1), get(50, 1), get(1, 16), get(50, 16)];
    let case = |get| -> Box<dyn Case> { Box::new(get) };
    effort.pick(&quick, &full).into_iter().map(case).collect()
}

impl Get {
    /// It counts requests, not seconds: what kernel TCP does in a second on a slow machine.
    fn requests(&self, seconds: f64) -> f64 {
        let per_second = match (self.clients, self.pipeline) {
            (1, 1) => 40e3,
            (_, 1) => 80e3,
            _ => 500e3,
        };
        (per_second * seconds)
            .max(f64::from(self.clients * self.pipeline) * 20.0)
            .ceil()
    }
}

impl Case for Get {
    fn lines(&self) -> Vec<Line> {
        let clients = count_text(self.clients.into(), "client");
        let label = match self.pipeline {
            1 => clients,
            depth => format!("{clients}, pipeline {depth}"),
        };
        vec![Line::new(label, Unit::PerSecond("requests"), Per::Million)]
    }

    fn run(&self, how: &How, stage: &Stage) -> Result<Reading, String> {
        let port = stage.port()?;
        let mut server = stage.command(how, End::Server, find_or_say("redis-server")?);
        server.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        server.args(["--save", "", "--appendonly", "no", "--protected-mode", "no"]);
        let requests = self.requests(stage.seconds.as_secs_f64());
        let mut client = stage.command(how, End::Client, find_or_say("redis-benchmark")?);
        client.args([
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-t",
            "get",
            "--csv",
        ]);
        client.args([
            "-c",
            &self.clients.to_string(),
            "-P",
            &self.pipeline.to_string(),
        ]);
        client.args(["-n", &requests.to_string()]);
        let (ready, stop) = (Ready::Port(port), Stop::Signal(Signal::TERM));
        let ran = stage.duel(
            how,
            Duel {
                server,
                ready,
                client,
                stop,
            },
        )?;
        let rate = parse(&ran.output)?;
        Ok(Reading::new(rate, ran, requests / 1e6))
    }
}

/// The second field of the line that begins with the name of the test.
fn parse(text: &str) -> Result<f64, String> {
    let line = text.lines().find(|line| line.starts_with("\"GET\""));
    line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok())
        .ok_or_else(|| "redis-benchmark printed no figure for GET".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        assert_eq!(parse(include_str!("recorded/redis.csv")), Ok(113_636.37));
        assert!(parse("Could not connect to Redis at 127.0.0.1:1: Connection refused").is_err());
    }
}
