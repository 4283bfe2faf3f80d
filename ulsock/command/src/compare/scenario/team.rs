//! Many threads at both ends, each with a connection of its own.

use super::built_in::BuiltIn;
use super::{Case, Effort, Scenario};
use crate::compare::figure::Unit;

pub const SCENARIO: Scenario = Scenario {
    name: "threads",
    title: "Round trips of 64 B by many threads, a connection each",
    cases,
    ..Scenario::DEFAULT
};

const QUICK: [u64; 1] = [64];
const FULL: [u64; 3] = [2, 8, 64];

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&QUICK, &FULL, |connections| {
        let label = format!("{connections} threads");
        BuiltIn {
            connections,
            ..BuiltIn::new("team", label, Unit::PerSecond("round trips"))
        }
    })
}
