//! memcached with memcslap of libmemcached, a thread and a connection for each client.

use super::text::leading_number;
use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::programs::need;
use crate::compare::user;
use rustix::process::Signal;

pub const SCENARIO: Scenario = Scenario {
    name: "memcached",
    title: "memcached, get (memcslap)",
    needs: &[
        need("memcached", "memcached"),
        need("memcslap", "libmemcached-tools"),
    ],
    quick: true,
    between_hosts: true,
    cases,
    ..Scenario::DEFAULT
};

struct MemcachedGet {
    clients: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&[8], &[1, 8], |clients| MemcachedGet { clients })
}

impl Case for MemcachedGet {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.clients.into(), "client");
        vec![Line::new(label, Unit::PerSecond("requests"), Per::Million)]
    }

    fn references(&self) -> Vec<Contender> {
        vec![Contender::Unix]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let listen = bout.either("-l {host} -U 0 -p {port}", "-s {path} -a 0777");
        let mut server = bout.server("memcached", &format!("{listen} -t 1"))?;
        if let Some(user) = user::for_servers() {
            server.args(["-u", user.name]);
        }
        let each = bout.count(50e3 / f64::from(self.clients), 100.0);
        let words = format!(
            "--servers {} --test=get --concurrency={} --execute-number={each}",
            bout.either("{host}:{port}", "{path}"),
            self.clients
        );
        let client = bout.client("memcslap", &words)?;
        let ran = bout.fight(server, client, Stop::Signal(Signal::TERM))?;
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
