//! What a send and a receive cost that need not wait, with both ends in one thread; and what of that
//! is the ring's own work. The instructions are those of the checked-in table.

use serde::Deserialize;

use super::text::number_after;
use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::figure::{Per, Unit, size_text};
use crate::compare::result::Row;
use crate::compare::usage::End;

pub const SCENARIO: Scenario = Scenario {
    name: "calls",
    title: "Calls that need not wait: time of one",
    cases,
    remarks,
    ..Scenario::DEFAULT
};

const INSTRUCTIONS: &str = include_str!("../../../../../benches/instructions.txt");

struct Calls {
    size: u64,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&[64, 1024], &[1, 64, 256, 1024, 4096], |size| Calls {
        size,
    })
}

impl Case for Calls {
    fn lines(&self) -> Vec<Line> {
        let line = |call| {
            let label = format!("{call}, {}", size_text(self.size));
            Line::new(label, Unit::Micros, Per::Million)
        };
        ["send", "recv"].map(line).into()
    }

    fn references(&self) -> Vec<Contender> {
        vec![Contender::Ring]
    }

    /// One thread is in one place.
    fn placements(&self) -> Vec<Placement> {
        vec![Placement::Scheduler]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let words = format!(
            "--size {} --seconds {} --warm-up {} {}",
            self.size,
            bout.seconds(),
            bout.stage.warm_up.as_secs_f64(),
            if bout.how.contender == Contender::Ring {
                "--ring"
            } else {
                ""
            }
        );
        let command = bout.own(End::Client, "calls", &words)?;
        let ran = bout.stage.solo(bout.how, command)?;
        let printed: CallsPrinted =
            serde_json::from_str(&ran.output).map_err(|error| format!("calls: {error}"))?;
        Ok(Reading {
            values: vec![printed.send_us, printed.recv_us],
            ..Reading::new(0.0, ran, printed.total_messages / 1e6)
        })
    }
}

#[derive(Deserialize)]
struct CallsPrinted {
    send_us: f64,
    recv_us: f64,
    total_messages: f64,
}

fn remarks(rows: &[Row]) -> Vec<String> {
    let beyond = |row: &Row| {
        let ring = row.reference(Contender::Ring)?;
        let nanos = (row.used()?.value - ring.value) * 1e3;
        Some(format!("{} {nanos:.0} ns", row.label))
    };
    let beyond: Vec<String> = rows.iter().filter_map(beyond).collect();
    let mut remarks = Vec::new();
    if !beyond.is_empty() {
        let beyond = beyond.join("; ");
        remarks.push(format!(
            "Beyond the ring's own work (hook, lock, checks): {beyond}."
        ));
    }
    let count = |call: &str| number_after(INSTRUCTIONS, &format!("\n{call} "));
    if let [Some(send), Some(recv), Some(push), Some(pull)] =
        ["send", "recv", "push", "pull"].map(count)
    {
        remarks.push(format!(
            "In instructions, 64 B: send {send}, recv {recv}; of these the ring's own push {push}, pull {pull}."
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_known() {
        assert!(remarks(&[]).iter().any(|remark| remark.contains("push")));
    }
}
