//! Many connections between two processes, a random one of which is asked each time.

use super::built_in::BuiltIn;
use super::{Case, Chart, Effort, Scenario};
use crate::compare::figure::{count_text, Unit};

pub const SCENARIO: Scenario = Scenario {
    name: "connections",
    title: "Round trip of 64 B on a random one of many connections (mean time)",
    chart: Chart::Connections,
    cases,
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
