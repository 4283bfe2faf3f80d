//! Messages one way at full speed, one write each, over the message size.

use super::built_in::BuiltIn;
use super::{ping_pong, Case, Chart, Effort, Scenario};
use crate::compare::contender::Contender;
use crate::compare::figure::{size_text, Unit};

pub const SCENARIO: Scenario = Scenario {
    name: "stream",
    title: "Stream, one way",
    chart: Chart::Sizes,
    quick: true,
    cases,
    ..Scenario::DEFAULT
};

const QUICK: [u64; 4] = [64, 1 << 10, 16 << 10, 256 << 10];
/// Below this size the figure reads in messages, from it on in bytes.
const SMALL: u64 = 4 << 10;

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&QUICK, &ping_pong::FULL, |size| BuiltIn {
        x: Some(size),
        size,
        references: &[Contender::Unix],
        ..BuiltIn::new("stream", size_text(size), unit(size))
    })
}

fn unit(size: u64) -> Unit {
    match size < SMALL {
        true => Unit::Messages(size),
        false => Unit::Bytes,
    }
}
