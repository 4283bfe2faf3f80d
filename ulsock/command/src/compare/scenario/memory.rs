//! What connections take in memory at both ends together: no race, for rings come on top of the
//! kernel's sockets. The kernel's own records of a socket, which both have, are not counted.

use serde::Deserialize;

use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::cores::Placement;
use crate::compare::figure::{Per, Unit};
use crate::compare::result::Row;
use crate::compare::usage::End;

pub const SCENARIO: Scenario = Scenario {
    name: "memory",
    title: "Memory of both processes, with socket buffers (no race: rings come on top of sockets)",
    cases,
    remarks,
    ..Scenario::DEFAULT
};

const IDLE: u64 = 1000;

#[derive(Clone, Copy)]
enum Hoard {
    Idle,
    Burst,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    const BOTH: [Hoard; 2] = [Hoard::Idle, Hoard::Burst];
    effort.cases(&BOTH, &BOTH, |hoard| hoard)
}

impl Case for Hoard {
    fn lines(&self) -> Vec<Line> {
        let labels: &[&str] = match self {
            Hoard::Idle => &["each of 1000 idle connections"],
            Hoard::Burst => &[
                "1 connection, before a burst",
                "1 connection, 2 MiB unread",
                "1 connection, up to 4 s later",
            ],
        };
        let line = |label: &&str| Line {
            race: false,
            ..Line::new(*label, Unit::Kib, Per::Run)
        };
        labels.iter().map(line).collect()
    }

    /// Memory is the same everywhere.
    fn placements(&self) -> Vec<Placement> {
        vec![Placement::Scheduler]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let words = match self {
            Hoard::Idle => format!("--connections {IDLE}"),
            Hoard::Burst => "--burst".to_owned(),
        };
        let command = bout.own(End::Client, "hoard", &words)?;
        let ran = bout.stage.solo(bout.how, command)?;
        let printed: MemoryPrinted =
            serde_json::from_str(&ran.output).map_err(|error| format!("hoard: {error}"))?;
        Ok(Reading {
            values: printed.values(),
            ..Reading::new(0.0, ran, 1.0)
        })
    }
}

/// In KiB.
#[derive(Deserialize)]
struct MemoryPrinted {
    idle: f64,
    burst: Option<Burst>,
}

#[derive(Deserialize)]
struct Burst {
    unread: f64,
    later: f64,
}

impl MemoryPrinted {
    fn values(&self) -> Vec<f64> {
        match &self.burst {
            None => vec![self.idle / IDLE as f64],
            Some(burst) => vec![self.idle, burst.unread, burst.later],
        }
    }
}

fn remarks(rows: &[Row]) -> Vec<String> {
    let ours = |row: usize| rows.get(row)?.used().map(|figure| figure.value);
    let [Some(before), Some(unread), Some(later)] = [1, 2, 3].map(ours) else {
        return Vec::new();
    };
    let [grown, kept] = [unread, later].map(|kib| Unit::Kib.text((kib - before).max(0.0)));
    vec![format!(
        "Of the {grown} that the burst takes on ulsock, {kept} are kept afterwards."
    )]
}
