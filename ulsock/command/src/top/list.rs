//! The live connections as a list, or as JSON.

use serde::Serialize;
use sockets::observe::{ConnectionRow, Endpoint};
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};

use crate::amount::endpoint_in_json;
use crate::amount::{address, bytes};

const HEADINGS: [&str; 11] = [
    "PID", "PROGRAM", "LOCAL", "PEER", "SENDS BY", "READS BY", "SENT", "MSGS OUT", "RECEIVED",
    "MSGS IN", "REASON",
];

/// A connection in JSON. (Here, so that the preloaded library knows nothing of JSON.)
#[derive(Serialize)]
struct Row(#[serde(with = "RowInJson")] ConnectionRow);

#[derive(Serialize)]
#[serde(remote = "ConnectionRow")]
struct RowInJson {
    pid: u32,
    program: String,
    #[serde(serialize_with = "endpoint_in_json")]
    local: Option<Endpoint>,
    #[serde(serialize_with = "endpoint_in_json")]
    peer: Option<Endpoint>,
    carrier_tx: &'static str,
    carrier_rx: &'static str,
    tx_bytes: u64,
    rx_bytes: u64,
    tx_msgs: u64,
    rx_msgs: u64,
    reason: &'static str,
    holders: u32,
}

pub fn json(rows: Vec<ConnectionRow>) -> serde_json::Result<String> {
    let rows: Vec<Row> = rows.into_iter().map(Row).collect();
    serde_json::to_string(&rows)
}

pub fn table(rows: &[ConnectionRow]) -> String {
    if rows.is_empty() {
        return "no live connections of programs that run on ulsock".to_owned();
    }
    let mut builder = Builder::default();
    builder.push_record(HEADINGS);
    for row in rows {
        builder.push_record(cells(row));
    }
    let mut table = builder.build();
    table.with(Style::blank());
    for numeric in [0, 6, 7, 8, 9] {
        table.modify(Columns::one(numeric), Alignment::right());
    }
    let lines: Vec<String> = table
        .to_string()
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

fn cells(row: &ConnectionRow) -> [String; 11] {
    [
        row.pid.to_string(),
        program(row),
        address(row.local),
        address(row.peer),
        row.carrier_tx.to_owned(),
        row.carrier_rx.to_owned(),
        bytes(row.tx_bytes),
        row.tx_msgs.to_string(),
        bytes(row.rx_bytes),
        row.rx_msgs.to_string(),
        row.reason.to_owned(),
    ]
}

/// The program's name, and how many processes hold the socket when it is more than one.
fn program(row: &ConnectionRow) -> String {
    match row.holders {
        0 | 1 => row.program.clone(),
        holders => format!("{} ({holders} holders)", row.program),
    }
}
