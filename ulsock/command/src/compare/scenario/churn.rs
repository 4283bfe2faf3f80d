//! Short connections: connect, one message there and back, hang up. They end before they could
//! leave kernel TCP, and must not pay for that they might have.

use super::built_in::BuiltIn;
use super::{Case, Effort, Scenario};
use crate::compare::figure::Unit;

pub const SCENARIO: Scenario = Scenario {
    name: "churn",
    title: "Short connections, one after the other (they stay on kernel TCP)",
    quick: true,
    between_hosts: true,
    cases,
    ..Scenario::DEFAULT
};

fn cases(_: Effort) -> Vec<Box<dyn Case>> {
    vec![Box::new(case())]
}

pub fn case() -> BuiltIn {
    BuiltIn {
        rings: false,
        ..BuiltIn::new(
            "dial",
            "connect, 64 B, close",
            Unit::PerSecond("connections"),
        )
    }
}
