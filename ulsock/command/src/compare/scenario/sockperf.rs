//! sockperf's ping-pong, which also tells the percentiles.

use super::text::figure_after;
use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit};
use crate::compare::programs::need;
use rustix::process::Signal;

pub const SCENARIO: Scenario = Scenario {
    name: "sockperf",
    title: "sockperf ping-pong: round trips, their mean and percentiles",
    needs: &[need("sockperf", "sockperf")],
    between_hosts: true,
    cases,
    ..Scenario::DEFAULT
};

/// Lines of their own in the table.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

struct PingPong {
    size: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&[64], &[64, 1024], |size| PingPong { size })
}

impl Case for PingPong {
    fn lines(&self) -> Vec<Line> {
        let line = |what: &str| {
            let label = format!("{} B, {what}", self.size);
            Line::new(label, Unit::Micros, Per::Million)
        };
        let percentiles = PERCENTILES.map(|percent| line(&format!("{percent} %")));
        [line("mean")].into_iter().chain(percentiles).collect()
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let end = "--tcp -i {host} -p {port}";
        let server = bout.server("sockperf", &format!("sr {end}"))?;
        // It keeps 0.4 of its seconds out of its figures by itself.
        let (size, seconds) = (self.size, bout.whole_seconds());
        // Without --mps it has room for 600,000 messages a second, and fails beyond.
        let words = format!("pp {end} -m {size} --full-rtt -t {seconds} --mps 2000000");
        let client = bout.client("sockperf", &words)?;
        let ran = bout.fight(server, client, Stop::Signal(Signal::INT))?;
        let parsed = parse(&ran.output)?;
        let reading = Reading::new(parsed.mean, ran, parsed.messages / 1e6);
        let mut values = vec![parsed.mean];
        for percent in PERCENTILES {
            let mut known = parsed.percentiles.iter();
            let found = known.find(|(known, _)| *known == percent);
            values.push(found.ok_or("sockperf left a percentile out")?.1);
        }
        Ok(Reading {
            values,
            percentiles: parsed.percentiles,
            ..reading
        })
    }
}

struct Parsed {
    mean: f64,
    messages: f64,
    percentiles: Vec<(f64, f64)>,
}

fn parse(text: &str) -> Result<Parsed, String> {
    let percentile = |line: &str| {
        let (_, rest) = line.split_once("---> percentile")?;
        let (percent, micros) = rest.split_once('=')?;
        Some((percent.trim().parse().ok()?, micros.trim().parse().ok()?))
    };
    let mut percentiles: Vec<(f64, f64)> = text.lines().filter_map(percentile).collect();
    // What one of 10^5 trips took says little about a run of a second.
    percentiles.retain(|(percent, _)| *percent <= 99.99);
    percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total = text.lines().find(|line| line.contains("[Total Run]"));
    Ok(Parsed {
        mean: figure_after(text, "avg-rtt=")?,
        messages: figure_after(total.unwrap_or(text), "ReceivedMessages=")?,
        percentiles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        let parsed = parse(include_str!("recorded/sockperf.txt")).expect("figures");
        assert_eq!(parsed.mean, 14.717);
        assert_eq!(parsed.messages, 67596.0);
        assert_eq!(parsed.percentiles.first(), Some(&(25.0, 6.26)));
        assert_eq!(parsed.percentiles.last(), Some(&(99.99, 5174.127)));
    }

    #[test]
    fn other_output() {
        assert!(parse("sockperf: ERROR: connection refused").is_err());
    }
}
