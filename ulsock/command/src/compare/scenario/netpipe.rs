//! NetPIPE: the same ping-pong over TCP (NPtcp, on kernel TCP and on ulsock), over OpenMPI's shared
//! memory (NPopenmpi), over UCX's (its own ping-pong), and with messages of a program that is written for ulsock, in one
//! table. Times are one way.

use super::{Case, Chart, Effort, Line, Reading, Scenario, messages, mpi, ucx};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit, size_text};
use crate::compare::programs::{self, Need, find_or_say, need};
use crate::compare::stage::Ran;

pub const SCENARIO: Scenario = Scenario {
    name: "netpipe",
    title: "NetPIPE, one way: NPtcp, and NPopenmpi and UCX over shared memory",
    needs: &[need("NPtcp", "netpipe-tcp")],
    optional: &[("OpenMPI", OPENMPI), ("UCX", UCX)],
    chart: Chart::Sizes,
    between_hosts: true,
    cases,
    ..Scenario::DEFAULT
};

const OPENMPI: &[Need] = &[
    need("NPopenmpi", "netpipe-openmpi"),
    need("mpirun", "openmpi-bin"),
];
const UCX: &[Need] = &[need("ucx_perftest", "ucx-utils")];

/// From this size on the figure is bandwidth.
const LARGE: u64 = 64 << 10;

/// Sizes that need about as many repetitions.
#[derive(Clone)]
struct Range {
    sizes: &'static [u64],
    /// Round trips of each size in a second; NetPIPE makes three trials and takes the best.
    repeats: f64,
}

const RANGES: [Range; 4] = [
    Range {
        sizes: &[1, 8, 64, 256],
        repeats: 4000.0,
    },
    Range {
        sizes: &[1 << 10, 4 << 10, 16 << 10],
        repeats: 4000.0,
    },
    Range {
        sizes: &[64 << 10, 128 << 10, 256 << 10, 1 << 20],
        repeats: 200.0,
    },
    Range {
        sizes: &[4 << 20],
        repeats: 30.0,
    },
];

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&RANGES[..1], &RANGES, |range| range)
}

impl Range {
    fn repeats(&self, bout: &Bout) -> f64 {
        bout.count(self.repeats, 20.0)
    }

    /// What both programs of NetPIPE are told; what they write goes to a file of this name in the work
    /// folder. Without perturbations of the size they measure the powers of two, and those in between.
    fn words(&self, bout: &Bout, output: &str) -> String {
        let (first, last) = (self.sizes[0], self.sizes[self.sizes.len() - 1]);
        let repeats = self.repeats(bout);
        format!("-p 0 -l {first} -u {last} -n {repeats} -o {output}")
    }

    fn over_tcp(&self, bout: &Bout, output: &str) -> Result<Ran, String> {
        let words = format!("-P {{port}} {}", self.words(bout, output));
        let server = bout.server("NPtcp", &words)?;
        let client = bout.client("NPtcp", &format!("-h {{host}} {words}"))?;
        bout.fight(server, client, Stop::Itself)
    }

    fn over_mpi(&self, bout: &Bout, output: &str) -> Result<Ran, String> {
        mpi::run(bout, &find_or_say("NPopenmpi")?, &self.words(bout, output))
    }

    /// Seconds one way for each size, and the run.
    fn times(&self, bout: &Bout) -> Result<(Vec<f64>, Ran), String> {
        match bout.how.contender {
            Contender::Ucx => return ucx::times(bout, self.sizes, self.repeats(bout)),
            Contender::Messages => return messages::times(bout, self.sizes),
            _ => {}
        }
        let path = bout.stage.fresh_file("netpipe")?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ran = match bout.how.contender {
            Contender::Mpi { .. } => self.over_mpi(bout, &name)?,
            _ => self.over_tcp(bout, &name)?,
        };
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let times: Option<Vec<f64>> = self.sizes.iter().map(|size| parse(&text, *size)).collect();
        Ok((times.ok_or("NetPIPE left a size out")?, ran))
    }
}

impl Case for Range {
    fn lines(&self) -> Vec<Line> {
        let line = |&size: &u64| Line::new(size_text(size), unit(size), Per::Run).at(size);
        self.sizes.iter().map(line).collect()
    }

    fn references(&self) -> Vec<Contender> {
        let mut references = Vec::new();
        if programs::missing(OPENMPI).is_empty() {
            references.push(Contender::Mpi { single_copy: true });
            references.push(Contender::Mpi { single_copy: false });
        }
        if programs::missing(UCX).is_empty() {
            references.push(Contender::Ucx);
        }
        references.push(Contender::Messages);
        references
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let (times, ran) = self.times(bout)?;
        let value = |(&size, seconds): (&u64, f64)| match unit(size) {
            Unit::Micros => seconds * 1e6,
            _ => size as f64 / seconds,
        };
        Ok(Reading {
            values: self.sizes.iter().zip(times).map(value).collect(),
            ..Reading::new(0.0, ran, 1.0)
        })
    }
}

fn unit(size: u64) -> Unit {
    match size >= LARGE {
        true => Unit::Bytes,
        false => Unit::Micros,
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
