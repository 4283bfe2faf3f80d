//! `ulsock compare`: the same programs on kernel TCP and on ulsock, turn about, on this machine.
//! It measures the kernel at its best, and says so when ulsock was not really used.

mod bout;
mod busy;
mod contender;
mod cores;
mod daemons;
mod duel;
mod figure;
mod find;
pub mod guard;
mod hosts;
mod html;
mod measure;
mod namespace;
mod notes;
mod own;
mod process;
mod procfs;
mod programs;
mod progress;
mod reap;
mod result;
mod scenario;
mod series;
mod stage;
mod table;
pub mod usage;
mod user;
mod verdict;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::install::{Install, LIBRARY};
use crate::preload;

use cores::Ends;
use daemons::ProgramsPort;
use measure::Plan;
use own::Own;
use programs::Need;
use progress::Progress;
use result::{Host, Report, Skipped};
pub use scenario::PROGRAMS;
use scenario::{Effort, SCENARIOS, Scenario};
use stage::Stage;

/// Long enough for a connection to be offered, claimed and switched.
const WARM_UP: Duration = Duration::from_millis(60);

#[derive(Args)]
#[command(override_usage = "ulsock compare [OPTIONS] [-- SERVER... -- CLIENT...]")]
pub struct CompareOptions {
    /// Everything, with more runs; takes many minutes
    #[arg(long)]
    full: bool,
    /// Only these scenarios, comma separated (see --list)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        conflicts_with = "own"
    )]
    only: Vec<String>,
    /// Between two hosts instead of on one: network namespaces with a cable between them; needs root
    #[arg(long)]
    hosts: bool,
    /// Between hosts: nicd leases each program a queue of the NIC, for ULSOCK_NIC=inline; else it opens UDP sockets for them
    #[arg(long, requires = "hosts")]
    lease: bool,
    /// Where all ends run: each contender at its best, which is the default, or all left to the scheduler, on two cores, on one
    #[arg(long, value_enum, default_value_t = Ends::Best, hide_default_value = true)]
    ends: Ends,
    /// Say which scenarios there are, and what they need
    #[arg(long)]
    list: bool,
    /// Seconds that each run measures [default: 0.25; with --full 0.5]
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Runs of each kind; the figures are medians [default: 3; with --full or own programs 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Print JSON instead of the tables
    #[arg(long)]
    json: bool,
    /// Write a page with plots as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// What comes before the number that the own client prints about itself
    #[arg(long, value_name = "TEXT", requires = "own")]
    figure: Option<String>,
    /// Your own programs: a server, then a client; {port} in both is replaced by a free port, {host}
    /// by the server's address
    #[arg(last = true, value_name = "SERVER... -- CLIENT")]
    own: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.01..=3600.0).contains(&value) => Ok(value),
        _ => Err("between 0.01 and 3600".to_owned()),
    }
}

impl CompareOptions {
    fn effort(&self) -> Effort {
        match self.full {
            true => Effort::Full,
            false => Effort::Quick,
        }
    }

    /// How the programs get at the NIC, if they are on two hosts.
    fn hosts(&self) -> Option<ProgramsPort> {
        self.hosts.then_some(match self.lease {
            true => ProgramsPort::Queue,
            false => ProgramsPort::Sockets,
        })
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.full { 0.5 } else { 0.25 })
    }

    fn runs(&self) -> u32 {
        let few = !self.full && self.own.is_empty();
        self.runs.unwrap_or(if few { 3 } else { 5 })
    }
}

pub fn run(options: CompareOptions) -> Outcome {
    if options.list {
        print!("{}", list(&options));
        return Ok(ExitCode::SUCCESS);
    }
    if options.hosts {
        hosts::check()?;
    }
    preload::check_configuration(&[])?;
    let own = match options.own.is_empty() {
        true => None,
        false => Some(Own::parse(&options.own, options.figure.clone())?),
    };
    let (chosen, skipped) = choose(&options)?;
    let install = Install::locate()?;
    let mut files = vec![LIBRARY];
    files.extend(PROGRAMS);
    install.prepare(&files)?;
    let seconds = Duration::from_secs_f64(options.seconds());
    let stage = Stage::new(install, seconds, WARM_UP, options.hosts())?;
    let plans = match own {
        Some(own) => {
            let plan = own.plan(&stage)?;
            let ends = options.ends.placement();
            vec![Plan { ends, ..plan }]
        }
        None => chosen
            .iter()
            .map(|scenario| plan(scenario, &options))
            .collect(),
    };
    let report = measure(&plans, skipped, &stage, &options);
    print(&report, &options)?;
    Ok(match report.complete() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(Failure::WORK),
    })
}

fn measure(
    plans: &[Plan],
    skipped: Vec<Skipped>,
    stage: &Stage,
    options: &CompareOptions,
) -> Report {
    let runs = options.runs();
    let steps = plans.iter().map(|plan| plan.steps(runs)).sum();
    let mut progress = Progress::new(steps, plans.len());
    let mut sections = Vec::new();
    for plan in plans {
        progress.scenario(&plan.name);
        sections.push(measure::section(plan, stage, runs, &progress));
    }
    progress.finish();
    Report {
        host: Host::here(),
        runs,
        seconds: options.seconds(),
        hosts: options.hosts,
        sections,
        skipped,
    }
}

fn print(report: &Report, options: &CompareOptions) -> Result<(), Failure> {
    if let Some(path) = &options.html {
        let written = std::fs::write(path, html::page(report));
        written.map_err(|error| Failure::work(format!("{}: {error}", path.display())))?;
    }
    if options.json {
        let text = serde_json::to_string_pretty(report);
        println!(
            "{}",
            text.map_err(|error| Failure::work(error.to_string()))?
        );
    } else {
        print!("{}", table::render(report));
    }
    Ok(())
}

/// The scenarios to run, and those whose programs are missing.
fn choose(options: &CompareOptions) -> Result<(Vec<&'static Scenario>, Vec<Skipped>), Failure> {
    if !options.own.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let known = |name: &String| possible(options).any(|scenario| scenario.name == name);
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let hosts = if options.hosts { " --hosts" } else { "" };
        let message =
            format!("there is no scenario {unknown}: ulsock compare{hosts} --list names them");
        return Err(Failure::setup(message));
    }
    let wanted = |scenario: &&Scenario| match options.only.is_empty() {
        true => scenario.quick || options.full,
        false => options.only.iter().any(|name| name == scenario.name),
    };
    let wanted = possible(options).filter(wanted);
    let (present, absent): (Vec<_>, Vec<_>) =
        wanted.partition(|scenario| programs::missing(scenario.needs).is_empty());
    let skipped = absent
        .iter()
        .filter_map(|scenario| skipped(scenario.name.to_owned(), scenario.needs));
    let without = present.iter().flat_map(|scenario| left_out(scenario));
    let skipped = skipped.chain(without).collect();
    Ok((present, skipped))
}

/// Those that can be: between hosts not all.
fn possible(options: &CompareOptions) -> impl Iterator<Item = &'static Scenario> {
    let hosts = options.hosts;
    let all = SCENARIOS.iter();
    all.filter(move |scenario| match hosts {
        true => scenario.between_hosts,
        false => scenario.on_one_host,
    })
}

/// The references that a scenario does without.
fn left_out(scenario: &Scenario) -> impl Iterator<Item = Skipped> + use<'_> {
    let name = |what| format!("{what} beside {}", scenario.name);
    let optional = scenario.optional.iter();
    optional.filter_map(move |(what, needs)| skipped(name(what), needs))
}

fn skipped(name: String, needs: &[Need]) -> Option<Skipped> {
    let packages = programs::missing(needs);
    (!packages.is_empty()).then_some(Skipped { name, packages })
}

fn plan(scenario: &Scenario, options: &CompareOptions) -> Plan {
    let effort = options.effort();
    // The quick run has no time for them, and few are between hosts.
    let references =
        (effort == Effort::Full || !scenario.quick) && (!options.hosts || !scenario.on_one_host);
    Plan {
        name: scenario.name.to_owned(),
        title: scenario.title.to_owned(),
        chart: scenario.chart,
        rivals: scenario.rivals,
        cases: (scenario.cases)(effort),
        remarks: scenario.remarks,
        references,
        ends: options.ends.placement(),
    }
}

fn list(options: &CompareOptions) -> String {
    let line = |scenario: &Scenario| {
        let missing = programs::missing(scenario.needs);
        let state = match (missing.is_empty(), scenario.quick) {
            (false, _) => format!("needs: apt install {}", missing.join(" ")),
            (true, true) => "quick".to_owned(),
            (true, false) => "with --full or --only".to_owned(),
        };
        let more: Vec<&str> = left_out(scenario)
            .flat_map(|skipped| skipped.packages)
            .collect();
        let more = match missing.is_empty() && !more.is_empty() {
            true => format!("; more with: apt install {}", more.join(" ")),
            false => String::new(),
        };
        format!("{:12} {} [{state}{more}]\n", scenario.name, scenario.title)
    };
    possible(options).map(line).collect()
}
