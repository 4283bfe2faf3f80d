//! `ulsock stats`: what the programs of this host have carried since they began, by program, carrier and reason; or what
//! has been added since an earlier look.

pub mod snapshot;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sockets::observe::Reach;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};

use crate::amount::{bytes, count};
use crate::failure::{Failure, Outcome};
use crate::preload;
use crate::selection::Selection;
use snapshot::{ProgramStats, Snapshot};

#[derive(Args)]
pub struct StatsOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Only what has been added since `ulsock stats --json` wrote this file
    #[arg(long, value_name = "FILE", conflicts_with = "during")]
    since: Option<PathBuf>,
    /// Only what is added in so many seconds from now on
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    during: Option<Duration>,
    #[command(flatten)]
    selection: Selection,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    match (0.0..=1e9).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("not between 0 and a thousand million".to_owned()),
    }
}

pub fn run(options: &StatsOptions) -> Outcome {
    let reach = options.selection.reach(&preload::configuration()?)?;
    let before = before(options, &reach)?;
    let mut now = Snapshot::take(&reach, &options.selection);
    if let Some(before) = before {
        now.subtract(&before);
    }
    let text = match options.json {
        true => serde_json::to_string_pretty(&now)
            .map_err(|why| Failure::work(format!("cannot write JSON: {why}")))?,
        false => text(&now),
    };
    crate::print::all(&(text + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn before(options: &StatsOptions, reach: &Reach) -> Result<Option<Snapshot>, Failure> {
    if let Some(time) = options.during {
        let before = Snapshot::take(reach, &options.selection);
        std::thread::sleep(time);
        return Ok(Some(before));
    }
    let Some(file) = &options.since else {
        return Ok(None);
    };
    let text = fs::read_to_string(file).map_err(|why| Failure::setup(unread(file, &why)))?;
    let before = serde_json::from_str(&text).map_err(|why| {
        Failure::setup(format!(
            "--since {}: {why}; it must be a file that `ulsock stats --json` has written",
            file.display()
        ))
    })?;
    Ok(Some(before))
}

/// Many tools take a time here.
fn unread(file: &Path, why: &io::Error) -> String {
    let shown = file.display();
    match why.kind() {
        io::ErrorKind::NotFound => format!(
            "--since {shown}: there is no such file, and programs keep no history: `--for SECONDS` counts from now on; \
             or keep a look with `ulsock stats --json > FILE`, and name FILE here later"
        ),
        _ => format!("--since {shown}: {why}"),
    }
}

fn text(now: &Snapshot) -> String {
    if now.programs.is_empty() {
        return "no programs that run on ulsock".to_owned();
    }
    let parts = [by_program(now), by_carrier(now), by_reason(now)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

fn by_program(now: &Snapshot) -> String {
    let headings = [
        "PROGRAM",
        "PID",
        "PROCESSES",
        "CONNECTIONS",
        "LIVE",
        "ON RINGS",
        "RING SENT",
        "RECEIVED",
        "KERNEL SENT",
        "RECEIVED",
        "AWAKE",
        "SLEPT",
        "IN VAIN",
        "WAKE-UPS",
    ];
    let rows = now.programs.iter().map(|it| {
        vec![
            it.program.clone(),
            it.pid.to_string(),
            it.processes.to_string(),
            it.connections.to_string(),
            it.live.to_string(),
            it.on_rings.to_string(),
            bytes(it.ring_bytes_sent),
            bytes(it.ring_bytes_received),
            bytes(it.kernel_bytes_sent),
            bytes(it.kernel_bytes_received),
            share(it, it.waits_awake),
            share(it, it.waits_slept),
            share(it, it.waits_in_vain),
            count(it.wake_ups as f64),
        ]
    });
    table(&headings, rows, 1)
}

/// Of the waits that came to an end awake or asleep.
fn share(program: &ProgramStats, part: u64) -> String {
    let all = program.waits_awake + program.waits_slept;
    match all {
        0 => "-".to_owned(),
        all => format!("{:.0} %", 100.0 * part as f64 / all as f64),
    }
}

fn by_carrier(now: &Snapshot) -> String {
    let sum = |part: fn(&ProgramStats) -> u64| now.programs.iter().map(part).sum::<u64>();
    let rows = [
        (
            "rings",
            sum(|it| it.ring_bytes_sent),
            sum(|it| it.ring_bytes_received),
        ),
        (
            "kernel",
            sum(|it| it.kernel_bytes_sent),
            sum(|it| it.kernel_bytes_received),
        ),
    ];
    let rows = rows
        .map(|(carrier, sent, received)| vec![carrier.to_owned(), bytes(sent), bytes(received)]);
    table(&["CARRIER", "SENT", "RECEIVED"], rows, 1)
}

fn by_reason(now: &Snapshot) -> String {
    let mut reasons: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for program in &now.programs {
        for (column, counts) in [&program.live_on_kernel, &program.ended_on_kernel]
            .into_iter()
            .enumerate()
        {
            for (reason, count) in counts {
                reasons.entry(reason).or_default()[column] += count;
            }
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let rows = reasons.into_iter().map(|(reason, [live, ended])| {
        vec![reason.to_owned(), live.to_string(), ended.to_string()]
    });
    table(&["ON THE KERNEL BECAUSE", "LIVE", "ENDED"], rows, 1)
}

/// The columns from `numeric` on are of numbers.
fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>, numeric: usize) -> String {
    let mut builder = Builder::default();
    builder.push_record(headings.iter().copied());
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::blank());
    table.modify(Columns::new(numeric..), Alignment::right());
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}
