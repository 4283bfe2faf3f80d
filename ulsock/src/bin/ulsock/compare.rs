//! `ulsock compare`: the same two programs on kernel TCP and on ulsock, turn about, on this machine.
//! It measures the kernel at its best, and says so when ulsock was not really used.

mod cores;
mod pair;
mod process;
mod progress;
mod reap;
mod result;
mod scenario;
mod table;
mod usage;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::install::{Install, LIBRARY};
use crate::preload;

use cores::Placement;
use pair::{Carrier, Pairs};
use progress::Progress;
use result::{Report, Row, Series};
use scenario::{Scenario, PROGRAMS, SCENARIOS};

/// Long enough for a connection to be offered, claimed and switched.
const WARM_UP: Duration = Duration::from_millis(60);

#[derive(Args)]
pub struct Options {
    /// Seconds that each run measures
    #[arg(long, default_value_t = 0.4, value_parser = seconds)]
    seconds: f64,
    /// Runs of each kind; the figures are medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print JSON instead of the tables
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.01..=3600.0).contains(&value) => Ok(value),
        _ => Err("between 0.01 and 3600".to_owned()),
    }
}

pub fn run(options: &Options) -> Outcome {
    preload::check_configuration()?;
    let install = Install::locate()?;
    install.prepare(&[LIBRARY, PROGRAMS[0], PROGRAMS[1]])?;
    let pairs = Pairs::new(&install, Duration::from_secs_f64(options.seconds), WARM_UP)?;
    let report = measure(&pairs, options)?;
    if options.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::work(error.to_string()))?;
        println!("{text}");
    } else {
        print!("{}", table::render(&report));
    }
    Ok(if report.accelerated() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Failure::WORK)
    })
}

fn measure(pairs: &Pairs, options: &Options) -> Result<Report, Failure> {
    let placements = Placement::available();
    let steps = SCENARIOS.len() * placements.len() * 2 * options.runs as usize;
    let mut progress = Progress::new(steps, SCENARIOS.len());
    let mut rows = Vec::new();
    for scenario in &SCENARIOS {
        progress.scenario(scenario);
        rows.push(measure_scenario(
            pairs,
            scenario,
            &placements,
            options.runs,
            &progress,
        )?);
    }
    progress.finish();
    Ok(Report {
        runs: options.runs,
        seconds: options.seconds,
        rows,
    })
}

/// A B A B...: what the machine does to one side in these seconds it does to the other.
fn measure_scenario(
    pairs: &Pairs,
    scenario: &'static Scenario,
    placements: &[Placement],
    runs: u32,
    progress: &Progress,
) -> Result<Row, Failure> {
    let series = || placements.iter().map(|placement| Series::new(*placement));
    let (mut kernel, mut ulsock): (Vec<_>, Vec<_>) = (series().collect(), series().collect());
    for _ in 0..runs {
        for (kernel, ulsock) in kernel.iter_mut().zip(&mut ulsock) {
            kernel.extend(|placement| pairs.run(scenario, Carrier::Kernel, placement));
            progress.step();
            ulsock.extend(|placement| pairs.run(scenario, Carrier::Ulsock, placement));
            progress.step();
        }
    }
    Row::new(scenario, &kernel, &ulsock)
}
