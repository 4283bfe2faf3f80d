//! Round trips of one message, one at a time, over the message size.

use super::built_in::BuiltIn;
use super::{Case, Chart, Effort, Scenario};
use crate::compare::contender::Contender;
use crate::compare::figure::{Unit, size_text};

pub const SCENARIO: Scenario = Scenario {
    name: "ping-pong",
    title: "Round trips, one at a time (mean time)",
    chart: Chart::Sizes,
    quick: true,
    between_hosts: true,
    cases,
    ..Scenario::DEFAULT
};

const QUICK: [u64; 4] = [64, 1 << 10, 16 << 10, 256 << 10];
pub const FULL: [u64; 12] = [
    1,
    8,
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&QUICK, &FULL, case)
}

pub fn case(size: u64) -> BuiltIn {
    BuiltIn {
        x: Some(size),
        size,
        references: &[Contender::Unix, Contender::Ring, Contender::Messages],
        ..BuiltIn::new("pingpong", size_text(size), Unit::Micros)
    }
}
