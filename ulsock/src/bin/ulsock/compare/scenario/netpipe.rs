//! NetPIPE: the same ping-pong over TCP (NPtcp, on kernel TCP and on ulsock) and over OpenMPI's shared
//! memory (NPopenmpi), in one table. Times are one way, as NetPIPE gives them.

use std::path::Path;

use super::{mpi, Case, Chart, Effort, Line, Reading, Scenario};
use crate::compare::contender::Contender;
use crate::compare::figure::{size_text, Per, Unit};
use crate::compare::programs::{find, find_or_say, need};
use crate::compare::stage::{Duel, How, Ran, Ready, Stage, Stop};
use crate::compare::usage::End;

pub const SCENARIO: Scenario = Scenario {
    name: "netpipe",
    title: "NetPIPE, one way: NPtcp, and NPopenmpi over shared memory",
    needs: &[
        need("NPtcp", "netpipe-tcp"),
        need("NPopenmpi", "netpipe-openmpi"),
        need("mpirun", "openmpi-bin"),
    ],
    chart: Chart::Sizes,
    quick: false,
    cases,
};

/// From this size on the figure is bandwidth.
const LARGE: u64 = 64 << 10;

/// Sizes that need about as many repetitions.
#[derive(Clone)]
struct Range {
    sizes: &'static [u64],
    /// Round trips of each size in a second; NetPIPE makes three trials and takes the best.
    repeats: f64,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    let small = Range {
        sizes: &[1, 8, 64, 256],
        repeats: 4000.0,
    };
    let middle = Range {
        sizes: &[1 << 10, 4 << 10, 16 << 10],
        repeats: 4000.0,
    };
    let large = Range {
        sizes: &[64 << 10, 128 << 10, 256 << 10, 1 << 20],
        repeats: 200.0,
    };
    let huge = Range {
        sizes: &[4 << 20],
        repeats: 30.0,
    };
    let case = |range| -> Box<dyn Case> { Box::new(range) };
    let full = [small.clone(), middle, large, huge];
    effort.pick(&[small], &full).into_iter().map(case).collect()
}

impl Range {
    fn arguments(&self, stage: &Stage, output: &Path) -> Vec<String> {
        let repeats = (self.repeats * stage.seconds.as_secs_f64())
            .max(20.0)
            .ceil();
        let (first, last) = (self.sizes[0], self.sizes[self.sizes.len() - 1]);
        // Without perturbations of the size: it measures the powers of two, and those in between.
        let text = format!("-p 0 -l {first} -u {last} -n {repeats} -o");
        let mut arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        arguments.push(output.display().to_string());
        arguments
    }

    fn over_tcp(&self, how: &How, stage: &Stage, output: &Path) -> Result<Ran, String> {
        let port = stage.port()?;
        let program = find_or_say("NPtcp")?;
        let arguments = self.arguments(stage, output);
        let mut server = stage.command(how, End::Server, &program);
        server.args(["-P", &port.to_string()]).args(&arguments);
        let mut client = stage.command(how, End::Client, &program);
        client
            .args(["-h", "127.0.0.1", "-P", &port.to_string()])
            .args(&arguments);
        let (ready, stop) = (Ready::Port(port), Stop::Itself);
        stage.duel(
            how,
            Duel {
                server,
                ready,
                client,
                stop,
            },
        )
    }

    fn over_mpi(&self, how: &How, stage: &Stage, output: &Path) -> Result<Ran, String> {
        let program = find_or_say("NPopenmpi")?;
        let arguments = self.arguments(stage, output);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        stage.solo(how, mpi::run(how, stage, &program, &arguments)?)
    }
}

impl Case for Range {
    fn lines(&self) -> Vec<Line> {
        let line = |&size: &u64| {
            let unit = match size >= LARGE {
                true => Unit::Bytes,
                false => Unit::Micros,
            };
            Line::new(size_text(size), unit, Per::Run).at(size)
        };
        self.sizes.iter().map(line).collect()
    }

    fn contenders(&self) -> Vec<Contender> {
        let mut contenders = vec![Contender::Kernel, Contender::Ulsock];
        if find("NPopenmpi").is_some() {
            contenders.push(Contender::Mpi { single_copy: true });
            contenders.push(Contender::Mpi { single_copy: false });
        }
        contenders
    }

    fn run(&self, how: &How, stage: &Stage) -> Result<Reading, String> {
        let output = stage.fresh("netpipe");
        let ran = match how.contender {
            Contender::Mpi { .. } => self.over_mpi(how, stage, &output)?,
            _ => self.over_tcp(how, stage, &output)?,
        };
        let text = std::fs::read_to_string(&output).map_err(|error| format!("np.out: {error}"))?;
        let values: Option<Vec<f64>> = self
            .lines()
            .iter()
            .zip(self.sizes)
            .map(|(line, &size)| {
                let seconds = parse(&text, size)?;
                Some(match line.unit {
                    Unit::Micros => seconds * 1e6,
                    _ => size as f64 / seconds,
                })
            })
            .collect();
        Ok(Reading {
            values: values.ok_or("NetPIPE left a size out")?,
            ..Reading::new(0.0, ran, 1.0)
        })
    }
}

/// Seconds one way for `size`: the third column.
fn parse(text: &str, size: u64) -> Option<f64> {
    text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let matches = fields.next()?.parse() == Ok(size);
        let seconds = fields.nth(1)?.parse().ok()?;
        (matches && seconds > 0.0).then_some(seconds)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        let text = include_str!("recorded/netpipe.txt");
        assert_eq!(parse(text, 128), Some(0.00000539));
        assert_eq!(parse(text, 16384), Some(0.00000381));
        assert_eq!(parse(text, 127), None);
    }
}
