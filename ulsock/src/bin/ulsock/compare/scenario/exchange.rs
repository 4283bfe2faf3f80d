//! An MPI program of our own, over TCP: a halo exchange (neighbours swap the edges of their parts and
//! agree on a sum) and an all-to-all. OpenMPI's shared memory does the same for reference.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use super::{mpi, Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::figure::{size_text, Per, Unit};
use crate::compare::programs::{find_or_say, need, need_header};
use crate::compare::stage::Stage;

pub const SCENARIO: Scenario = Scenario {
    name: "mpi",
    title: "OpenMPI over TCP, two processes: time of a step",
    needs: &[
        need("mpirun", "openmpi-bin"),
        need("gcc", "gcc"),
        need_header("openmpi/include/mpi.h", "libopenmpi-dev"),
    ],
    cases,
    ..Scenario::DEFAULT
};

const SOURCE: &str = include_str!("exchange.c");

struct Exchange {
    pattern: &'static str,
    size: u64,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    let quick = [("halo", 8 << 10), ("all-to-all", 1 << 10)];
    let full = [
        ("halo", 1 << 10),
        ("halo", 8 << 10),
        ("halo", 64 << 10),
        ("all-to-all", 64),
        ("all-to-all", 1 << 10),
        ("all-to-all", 64 << 10),
    ];
    effort.cases(&quick, &full, |(pattern, size)| Exchange { pattern, size })
}

impl Case for Exchange {
    fn lines(&self) -> Vec<Line> {
        let label = format!("{}, {}", self.pattern, size_text(self.size));
        vec![Line::new(label, Unit::Micros, Per::Million)]
    }

    fn references(&self) -> Vec<Contender> {
        vec![Contender::Mpi { single_copy: true }]
    }

    /// Each process on a core, as mpirun does by itself: they never sleep, and the scheduler may leave
    /// two that only spin on one core for long.
    fn placements(&self) -> Vec<Placement> {
        Placement::available()
            .into_iter()
            .next_back()
            .into_iter()
            .collect()
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let program = compiled(bout.stage)?;
        let (warm_up, seconds) = (bout.stage.warm_up.as_secs_f64(), bout.seconds());
        let words = format!("{} {} {warm_up} {seconds}", self.pattern, self.size);
        let mut ran = mpi::run(bout, &program, &words)?;
        let printed = parse(&ran.output)?;
        // mpirun's own start is much of a short run: the program counts what its steps took.
        ran.cpu = std::time::Duration::from_secs_f64(printed.cpu_seconds);
        let micros = printed.seconds * 1e6 / printed.steps;
        Ok(Reading::new(micros, ran, printed.steps / 1e6))
    }
}

/// The program, compiled at its first use.
fn compiled(stage: &Stage) -> Result<PathBuf, String> {
    let program = stage.folder().join("exchange");
    if !program.exists() {
        let source = stage.folder().join("exchange.c");
        std::fs::write(&source, SOURCE)
            .map_err(|error| format!("{}: {error}", source.display()))?;
        let mut mpicc = Command::new(find_or_say("mpicc")?);
        mpicc.arg("-O2").arg("-o").arg(&program).arg(&source);
        stage.prepare(&mut mpicc)?;
    }
    Ok(program)
}

#[derive(Deserialize)]
struct Printed {
    steps: f64,
    seconds: f64,
    /// Of all processes, in the measured steps.
    cpu_seconds: f64,
}

fn parse(text: &str) -> Result<Printed, String> {
    let line = text
        .lines()
        .find(|line| line.starts_with('{'))
        .unwrap_or_default();
    serde_json::from_str(line).map_err(|error| format!("exchange: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_line() {
        let text =
            "some remark of mpirun's\n{\"steps\":1000,\"seconds\":0.5,\"cpu_seconds\":0.9}\n";
        let printed = parse(text).expect("figures");
        assert_eq!([printed.steps, printed.seconds], [1000.0, 0.5]);
        assert!(parse("mpirun was unable to launch").is_err());
    }
}
