//! An MPI program of our own, over TCP: a halo exchange (neighbours swap the edges of their parts and
//! agree on a sum) and an all-to-all. OpenMPI's shared memory does the same for reference.

use serde::Deserialize;

use super::source::Source;
use super::text::json_line;
use super::{Case, Effort, Line, Reading, Scenario, mpi};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::figure::{Per, Unit, size_text};
use crate::compare::programs::{need, need_header};

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

const SOURCE: Source = Source {
    file: "exchange.c",
    text: include_str!("exchange.c"),
    compiler: "mpicc",
    words: "-O2 -o exchange exchange.c",
    made: "exchange",
};

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
        let program = SOURCE.compiled(bout.stage)?;
        let (warm_up, seconds) = (bout.stage.warm_up.as_secs_f64(), bout.seconds());
        let words = format!("{} {} {warm_up} {seconds}", self.pattern, self.size);
        let mut ran = mpi::run(bout, &program, &words)?;
        let printed: ExchangePrinted = json_line(&ran.output)?;
        // mpirun's own start is much of a short run: the program counts what its steps took.
        ran.cpu = std::time::Duration::from_secs_f64(printed.cpu_seconds);
        let micros = printed.seconds * 1e6 / printed.steps;
        Ok(Reading::new(micros, ran, printed.steps / 1e6))
    }
}

#[derive(Deserialize)]
struct ExchangePrinted {
    steps: f64,
    seconds: f64,
    /// Of all processes, in the measured steps.
    cpu_seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_line() {
        let text =
            "some remark of mpirun's\n{\"steps\":1000,\"seconds\":0.5,\"cpu_seconds\":0.9}\n";
        let printed: ExchangePrinted = json_line(text).expect("figures");
        assert_eq!([printed.steps, printed.seconds], [1000.0, 0.5]);
        assert!(json_line::<ExchangePrinted>("mpirun was unable to launch").is_err());
    }
}
