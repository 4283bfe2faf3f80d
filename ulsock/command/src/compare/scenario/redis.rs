//! redis with its own benchmark: GET, few and many clients, with and without a pipeline.

use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::programs::need;
use rustix::process::Signal;

pub const SCENARIO: Scenario = Scenario {
    name: "redis",
    title: "redis, GET (redis-benchmark)",
    needs: &[
        need("redis-server", "redis-server"),
        need("redis-benchmark", "redis-tools"),
    ],
    quick: true,
    between_hosts: true,
    cases,
    ..Scenario::DEFAULT
};

struct RedisGet {
    clients: u32,
    pipeline: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    let quick = [(1, 1), (50, 1)];
    let full = [(1, 1), (50, 1), (1, 16), (50, 16)];
    effort.cases(&quick, &full, |(clients, pipeline)| RedisGet {
        clients,
        pipeline,
    })
}

impl RedisGet {
    fn requests(&self, bout: &Bout) -> f64 {
        let per_second = match (self.clients, self.pipeline) {
            (1, 1) => 40e3,
            (_, 1) => 80e3,
            _ => 500e3,
        };
        bout.count(per_second, f64::from(self.clients * self.pipeline) * 20.0)
    }
}

impl Case for RedisGet {
    fn lines(&self) -> Vec<Line> {
        let clients = count_text(self.clients.into(), "client");
        let label = match self.pipeline {
            1 => clients,
            depth => format!("{clients}, pipeline {depth}"),
        };
        vec![Line::new(label, Unit::PerSecond("requests"), Per::Million)]
    }

    fn references(&self) -> Vec<Contender> {
        vec![Contender::Unix]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let listen = bout.either(
            "--port {port} --bind {host}",
            "--port 0 --unixsocket {path}",
        );
        let mut server = bout.server("redis-server", listen)?;
        server.args(["--save", "", "--appendonly", "no", "--protected-mode", "no"]);
        let requests = self.requests(bout);
        let words = format!(
            "{} -t get --csv -c {} -P {} -n {requests}",
            bout.either("-h {host} -p {port}", "-s {path}"),
            self.clients,
            self.pipeline
        );
        let client = bout.client("redis-benchmark", &words)?;
        let ran = bout.fight(server, client, Stop::Signal(Signal::TERM))?;
        Ok(Reading::new(parse(&ran.output)?, ran, requests / 1e6))
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
