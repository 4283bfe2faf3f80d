//! Requests of a program that is written for ulsock, 100 at a time, over one or many connections.

use super::built_in::BuiltIn;
use super::{Case, Chart, Effort, Scenario};
use crate::compare::figure::{Unit, count_text};
use crate::compare::result::Row;

pub const SCENARIO: Scenario = Scenario {
    name: "requests",
    title: "Requests of 64 B by the native library, 100 at a time, over one and many connections",
    chart: Chart::Connections,
    cases,
    remarks,
    ..Scenario::DEFAULT
};

const QUICK: [u64; 2] = [1, 100];
const FULL: [u64; 4] = [1, 100, 1000, 5000];

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&QUICK, &FULL, |connections| BuiltIn {
        x: Some(connections),
        connections,
        native: true,
        ..BuiltIn::new(
            "requests",
            count_text(connections, "connection"),
            Unit::PerSecond("requests"),
        )
    })
}

/// How much the most connections cost.
fn remarks(rows: &[Row]) -> Vec<String> {
    let (Some(one), Some(most)) = (rows.first(), rows.last()) else {
        return Vec::new();
    };
    match (one.used(), most.used()) {
        (Some(few), Some(many)) => vec![format!(
            "Requests per second over {}: {:.2} times those over {}.",
            one.label,
            few.value / many.value,
            most.label
        )],
        _ => Vec::new(),
    }
}
