//! `ulsock top`: the live connections of this host, with carrier, traffic, and the reason why one
//! is on kernel TCP. It only reads what the processes remember of them, as far as it may.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rendezvous::rundir::RunDir;
use serde::Serialize;
use sockets::stats::{self, ConnectionRow};
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};

use crate::failure::{Failure, Outcome};
use crate::preload;

const REFRESH: Duration = Duration::from_secs(1);
const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J";
const HEADINGS: [&str; 11] = [
    "PID", "PROGRAM", "LOCAL", "PEER", "SENDS BY", "READS BY", "SENT", "MSGS OUT", "RECEIVED",
    "MSGS IN", "REASON",
];

#[derive(Args)]
pub struct TopOptions {
    /// Print the list once and exit; otherwise it is refreshed every second
    #[arg(long)]
    once: bool,
    /// Print one JSON array per refresh instead of a table
    #[arg(long)]
    json: bool,
}

/// A connection in JSON. (Here, so that the preloaded library knows nothing of JSON.)
#[derive(Serialize)]
struct Row(#[serde(with = "RowInJson")] ConnectionRow);

#[derive(Serialize)]
#[serde(remote = "ConnectionRow")]
struct RowInJson {
    pid: u32,
    program: String,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    carrier_tx: &'static str,
    carrier_rx: &'static str,
    tx_bytes: u64,
    rx_bytes: u64,
    tx_msgs: u64,
    rx_msgs: u64,
    reason: &'static str,
    holders: u32,
}

pub fn run(options: &TopOptions) -> Outcome {
    let run_dir = preload::open_run_dir(&preload::configuration()?)?;
    match show(options, &run_dir) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever read us has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::work(format!("cannot write the list: {error}"))),
    }
}

fn show(options: &TopOptions, run_dir: &RunDir) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let clear = !options.once && !options.json && out.is_terminal();
    loop {
        let rows = stats::live(run_dir);
        let text = if options.json {
            let rows: Vec<Row> = rows.into_iter().map(Row).collect();
            serde_json::to_string(&rows)?
        } else {
            table(&rows)
        };
        writeln!(out, "{}{text}", if clear { CLEAR_SCREEN } else { "" })?;
        out.flush()?;
        if options.once {
            return Ok(());
        }
        std::thread::sleep(REFRESH);
    }
}

fn table(rows: &[ConnectionRow]) -> String {
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

/// A byte count in three or four digits and a binary unit.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (count.max(1).ilog2() / 10).min(4);
    match unit {
        0 => format!("{count} B"),
        _ => format!(
            "{:.1} {}",
            count as f64 / (1u64 << (10 * unit)) as f64,
            UNITS[unit as usize]
        ),
    }
}

/// A connection that has carried nothing yet may not know its own address.
fn address(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "-".to_string(), |address| address.to_string())
}
