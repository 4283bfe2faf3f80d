//! iperf3: bytes one way, by a program that many know.

use serde::Deserialize;

use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::programs::need;

pub const SCENARIO: Scenario = Scenario {
    name: "iperf3",
    title: "iperf3 (bytes received)",
    needs: &[need("iperf3", "iperf3")],
    between_hosts: true,
    cases,
    ..Scenario::DEFAULT
};

struct Iperf3 {
    connections: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&[1], &[1, 4], |connections| Iperf3 { connections })
}

impl Case for Iperf3 {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.connections.into(), "connection");
        vec![Line::new(label, Unit::Bytes, Per::Gigabyte)]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let server = bout.server("iperf3", "-s -1 -p {port}")?;
        let words = format!(
            "-c {{host}} -p {{port}} -J -t {} -P {}",
            bout.whole_seconds(),
            self.connections
        );
        let client = bout.client("iperf3", &words)?;
        let ran = bout.fight(server, client, Stop::Itself)?;
        let received = parse(&ran.output)?;
        let rate = received.bits_per_second / 8.0;
        Ok(Reading::new(rate, ran, received.bytes / 1e9))
    }
}

#[derive(Deserialize)]
struct Iperf3Printed {
    end: Totals,
}

#[derive(Deserialize)]
struct Totals {
    sum_received: Received,
}

#[derive(Deserialize)]
struct Received {
    bytes: f64,
    bits_per_second: f64,
}

fn parse(text: &str) -> Result<Received, String> {
    let printed: Iperf3Printed =
        serde_json::from_str(text).map_err(|error| format!("iperf3: {error}"))?;
    Ok(printed.end.sum_received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        let received = parse(include_str!("recorded/iperf3.json")).expect("figures");
        assert_eq!(received.bytes, 1069547520.0);
        assert!(received.bits_per_second > 8.5e9);
    }
}
