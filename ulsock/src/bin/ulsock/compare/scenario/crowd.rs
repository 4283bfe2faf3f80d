//! Many connections between two processes, a random one of which is asked each time.

use super::built_in::BuiltIn;
use super::{Case, Chart, Effort, Scenario};
use crate::compare::figure::{count_text, Unit};
use crate::compare::result::Row;
use crate::compare::series::Figure;

pub const SCENARIO: Scenario = Scenario {
    name: "connections",
    title: "Round trip of 64 B on a random one of many connections (mean time)",
    chart: Chart::Connections,
    cases,
    remarks,
    ..Scenario::DEFAULT
};

const QUICK: [u64; 2] = [1, 100];
const FULL: [u64; 5] = [1, 10, 100, 1000, 5000];

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&QUICK, &FULL, |connections| {
        let label = count_text(connections, "connection");
        BuiltIn {
            x: Some(connections),
            connections,
            ..BuiltIn::new("crowd", label, Unit::Micros)
        }
    })
}

/// How much the most connections cost.
fn remarks(rows: &[Row]) -> Vec<String> {
    let (Some(one), Some(most)) = (rows.first(), rows.last()) else {
        return Vec::new();
    };
    let slower = |of: fn(&Row) -> Option<&Figure>| {
        let (one, most) = (of(one)?.value, of(most)?.value);
        let (times, more) = (most / one, Unit::Micros.text((most - one).max(0.0)));
        Some(format!("{times:.2} times (by {more})"))
    };
    let kernel = slower(|row| row.kernel.as_ref());
    let (Some(kernel), Some(ulsock)) = (kernel, slower(Row::used)) else {
        return Vec::new();
    };
    vec![format!(
        "From {} to {} a round trip takes {kernel} as long on kernel TCP, {ulsock} on ulsock.",
        one.label, most.label
    )]
}
