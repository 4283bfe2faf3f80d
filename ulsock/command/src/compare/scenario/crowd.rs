//! Many connections between two processes, a random one of which is asked each time. The server waits
//! for all of them by epoll, or in the older ways, which look at every connection in each call.

use super::built_in::BuiltIn;
use super::{Case, Chart, Effort, Scenario};
use crate::compare::figure::{Unit, count_text};
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

pub const POLL: Scenario = Scenario {
    name: "poll",
    title: "Round trip of 64 B on a random one of many connections, by poll and select (mean time)",
    cases: older,
    ..Scenario::DEFAULT
};

const QUICK: [u64; 2] = [1, 100];
const FULL: [u64; 5] = [1, 10, 100, 1000, 5000];

/// The numbers of a process's sockets, and some more, must fit into select's 1024.
const OLDER: [(&str, &str, u64); 4] = [
    ("poll", "--wait poll", 200),
    ("select", "--wait select", 200),
    ("poll", "--wait poll", 1000),
    ("select", "--wait select", 1000),
];

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&QUICK, &FULL, |connections| {
        let label = count_text(connections, "connection");
        BuiltIn {
            x: Some(connections),
            ..crowd(connections, label)
        }
    })
}

fn older(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&OLDER[..2], &OLDER, |(way, options, connections)| BuiltIn {
        options,
        ..crowd(connections, format!("{way}, {connections} connections"))
    })
}

fn crowd(connections: u64, label: String) -> BuiltIn {
    BuiltIn {
        connections,
        ..BuiltIn::new("crowd", label, Unit::Micros)
    }
}

/// How much the most connections cost.
fn remarks(rows: &[Row]) -> Vec<String> {
    let (Some(one), Some(most)) = (rows.first(), rows.last()) else {
        return Vec::new();
    };
    let slower = |of: fn(&Row) -> Option<&Figure>| {
        let (one, most) = (of(one)?.value, of(most)?.value);
        let times = format!("{:.2} times as long", most / one);
        Some(match most > one {
            true => format!("{times} ({} more)", Unit::Micros.text(most - one)),
            false => times,
        })
    };
    let kernel = slower(|row| row.kernel.as_ref());
    let (Some(kernel), Some(ulsock)) = (kernel, slower(Row::used)) else {
        return Vec::new();
    };
    vec![format!(
        "From {} to {} a round trip takes {kernel} on kernel TCP, {ulsock} on ulsock.",
        one.label, most.label
    )]
}
