//! The `ulsock` command: starts programs on ulsock, shows what they do, races ulsock against kernel TCP, says whether
//! it works here, and is the daemon of a host. Each subcommand has a file of its own;
//! this one only parses and dispatches.
#![deny(unsafe_code)]

mod amount;
mod capture;
mod compare;
mod ctl;
mod descriptors;
mod doctor;
mod events;
mod failure;
mod install;
mod metrics;
mod nicd;
mod packaging;
mod preload;
mod print;
mod probe;
mod run;
mod selection;
mod stats;
mod top;
mod trace;
mod unix_names;
mod utc;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Unmodified programs leave kernel TCP inside a cluster.
#[derive(Parser)]
#[command(name = "ulsock", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a program on ulsock
    Run(run::RunOptions),
    /// List the live connections of this host, and why some stay on kernel TCP
    Top(top::TopOptions),
    /// Follow what happens to the connections of this host: opened, promoted, demoted, reset, closed
    Events(events::EventsOptions),
    /// Order live connections, or whole programs, to kernel TCP and back
    Ctl(ctl::CtlOptions),
    /// Copy what travels by rings and links into a file for Wireshark, or show it
    Capture(capture::CaptureOptions),
    /// Total what the programs of this host carry, by program, carrier and reason
    Stats(stats::StatsOptions),
    /// Serve the totals, and the links of nicd, to Prometheus
    Metrics(metrics::MetricsOptions),
    /// Run a program on ulsock, record its calls, and say where the time went
    Trace(trace::TraceOptions),
    /// Race ulsock against kernel TCP on this machine
    Compare(compare::CompareOptions),
    /// Say what ulsock would do here, for a program, or does in a process, and why
    Doctor(doctor::DoctorOptions),
    /// Run the daemon that joins this host to others by the NIC, or ask it, or prepare it
    Nicd(Box<nicd::NicdOptions>),
    /// What Wireshark asks, which runs this as one of its extcap programs
    #[command(hide = true)]
    Extcap(capture::extcap::ExtcapOptions),
    #[command(name = doctor::trial::SUBCOMMAND, hide = true)]
    DoctorEnd(doctor::trial::TrialEnd),
    #[command(name = compare::guard::SUBCOMMAND, hide = true)]
    CompareGuard { folders: Vec<std::path::PathBuf> },
    #[command(name = packaging::SUBCOMMAND, hide = true)]
    PackagingFiles { folder: std::path::PathBuf },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(options) => run::run(options),
        Command::Top(options) => top::run(&options),
        Command::Events(options) => events::run(&options),
        Command::Ctl(options) => ctl::run(&options),
        Command::Capture(options) => capture::run(&options),
        Command::Extcap(options) => capture::extcap::run(&options),
        Command::Stats(options) => stats::run(&options),
        Command::Metrics(options) => metrics::run(&options),
        Command::Trace(options) => trace::run(options),
        Command::Compare(options) => compare::run(options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Nicd(options) => nicd::run(&options),
        Command::DoctorEnd(end) => doctor::trial::end(&end),
        Command::CompareGuard { folders } => Ok(compare::guard::run(&folders)),
        Command::PackagingFiles { folder } => packaging::run(&folder, Cli::command()),
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("ulsock: {failure}");
        ExitCode::from(failure.status)
    })
}
