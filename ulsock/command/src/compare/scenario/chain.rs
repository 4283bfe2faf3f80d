//! Connections that the daemons of two hosts carry, beside the bare chain of four processes.

use super::built_in::BuiltIn;
use super::{Case, Chart, Effort, Scenario};
use crate::compare::contender::Contender;
use crate::compare::figure::{Unit, size_text};
use crate::compare::result::Row;

pub const SCENARIO: Scenario = Scenario {
    name: "chain",
    title: "Round trips by the daemons (ULSOCK_NIC=daemon), and by the bare chain (mean time)",
    chart: Chart::Sizes,
    on_one_host: false,
    between_hosts: true,
    cases,
    remarks,
    ..Scenario::DEFAULT
};

fn cases(_: Effort) -> Vec<Box<dyn Case>> {
    let case = |size| -> Box<dyn Case> {
        Box::new(BuiltIn {
            x: Some(size),
            size,
            settings: &[("ULSOCK_NIC", "daemon")],
            references: &[Contender::Chain],
            ..BuiltIn::new("pingpong", size_text(size), Unit::Micros)
        })
    };
    [64, 1 << 10].into_iter().map(case).collect()
}

fn remarks(rows: &[Row]) -> Vec<String> {
    let remark = |row: &Row| {
        let (ulsock, chain) = (row.used()?, row.reference(Contender::Chain)?);
        let times = ulsock.value / chain.value;
        Some(format!(
            "{}: the daemons take {times:.2} times as long as the bare chain.",
            row.label
        ))
    };
    rows.iter().filter_map(remark).collect()
}
