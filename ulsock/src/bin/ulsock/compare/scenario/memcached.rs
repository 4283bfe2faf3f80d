//! memcached with memcslap of libmemcached, a thread and a connection for each client.

use super::text::leading_number;
use super::{Case, Chart, Effort, Line, Reading, Scenario};
use crate::compare::figure::{count_text, Per, Unit};
use crate::compare::programs::{find_or_say, need};
use crate::compare::stage::{Duel, How, Ready, Stage, Stop};
use crate::compare::usage::End;
use crate::compare::user;
use rustix::process::Signal;

pub const SCENARIO: Scenario = Scenario {
    name: "memcached",
    title: "memcached, get (memcslap)",
    needs: &[
        need("memcached", "memcached"),
        need("memcslap", "libmemcached-tools"),
    ],
    chart: Chart::Bars,
    quick: true,
    cases,
};

struct Get {
    clients: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    let case = |clients| -> Box<dyn Case> { Box::new(Get { clients }) };
    effort.pick(&[8], &[1, 8]).into_iter().map(case).collect()
}

impl Case for Get {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.clients.into(), "client");
        vec![Line::new(label, Unit::PerSecond("requests"), Per::Million)]
    }

    fn run(&self, how: &How, stage: &Stage) -> Result<Reading, String> {
        let port = stage.port()?;
        let mut server = stage.command(how, End::Server, find_or_say("memcached")?);
        server.args([
            "-l",
            "127.0.0.1",
            "-U",
            "0",
            "-t",
            "1",
            "-p",
            &port.to_string(),
        ]);
        if let Some(user) = user::for_servers() {
            server.args(["-u", user.name]);
        }
        // It counts requests, not seconds: what kernel TCP does in a second on a slow machine.
        let each = (50e3 * stage.seconds.as_secs_f64() / f64::from(self.clients))
            .max(100.0)
            .ceil();
        let mut client = stage.command(how, End::Client, find_or_say("memcslap")?);
        client.args(["--servers", &format!("127.0.0.1:{port}"), "--test=get"]);
        client.arg(format!("--concurrency={}", self.clients));
        client.arg(format!("--execute-number={each}"));
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
        let (keys, seconds) = parse(&ran.output)?;
        // The keys were set first, by one request each.
        Ok(Reading::new(keys / seconds, ran, (keys + each) / 1e6))
    }
}

/// Keys and seconds of `Time to get 40000 keys by 8 threads: 0.512 seconds.`
fn parse(text: &str) -> Result<(f64, f64), String> {
    let figures = |line: &str| {
        let keys = leading_number(line.strip_prefix("Time to get")?.trim_start())?;
        let seconds = leading_number(line.rsplit_once(':')?.1.trim_start())?;
        (seconds > 0.0).then_some((keys, seconds))
    };
    let found = text.lines().find_map(figures);
    found.ok_or_else(|| "memcslap printed no time to get keys".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        let figures = parse(include_str!("recorded/memcslap.txt"));
        assert_eq!(figures, Ok((40_000.0, 0.512)));
        assert!(parse("memslap: connection failure").is_err());
    }
}
