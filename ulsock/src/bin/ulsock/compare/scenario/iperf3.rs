//! iperf3: bytes one way, by a program that many know.

use serde::Deserialize;

use super::{Case, Chart, Effort, Line, Reading, Scenario};
use crate::compare::figure::{count_text, Per, Unit};
use crate::compare::programs::{find_or_say, need};
use crate::compare::stage::{Duel, How, Ready, Stage, Stop};
use crate::compare::usage::End;

pub const SCENARIO: Scenario = Scenario {
    name: "iperf3",
    title: "iperf3 (bytes received)",
    needs: &[need("iperf3", "iperf3")],
    chart: Chart::Bars,
    quick: false,
    cases,
};

struct Iperf3 {
    connections: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    let case = |connections| -> Box<dyn Case> { Box::new(Iperf3 { connections }) };
    effort.pick(&[1], &[1, 4]).into_iter().map(case).collect()
}

impl Case for Iperf3 {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.connections.into(), "connection");
        vec![Line::new(label, Unit::Bytes, Per::Gigabyte)]
    }

    fn run(&self, how: &How, stage: &Stage) -> Result<Reading, String> {
        let port = stage.port()?;
        let iperf3 = find_or_say("iperf3")?;
        let mut server = stage.command(how, End::Server, &iperf3);
        server.args(["-s", "-1", "-p", &port.to_string()]);
        let mut client = stage.command(how, End::Client, &iperf3);
        client.args(["-c", "127.0.0.1", "-p", &port.to_string(), "-J"]);
        let seconds = stage.seconds.as_secs_f64().ceil();
        client.args([
            "-t",
            &seconds.to_string(),
            "-P",
            &self.connections.to_string(),
        ]);
        let (ready, stop) = (Ready::Port(port), Stop::Itself);
        let ran = stage.duel(
            how,
            Duel {
                server,
                ready,
                client,
                stop,
            },
        )?;
        let received = parse(&ran.output)?;
        Ok(Reading::new(
            received.bits_per_second / 8.0,
            ran,
            received.bytes / 1e9,
        ))
    }
}

#[derive(Deserialize)]
struct Printed {
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
    let printed: Printed =
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
