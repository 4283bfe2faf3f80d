//! From runs to rows: medians, the kernel's better placement, and whether ulsock was really used.

use serde::Serialize;

use super::cores::Placement;
use super::pair::Sample;
use super::scenario::{Kind, Scenario};
use super::usage::Usage;
use crate::failure::Failure;

/// The runs of one carrier at one placement.
pub struct Series {
    placement: Placement,
    samples: Vec<Sample>,
    /// How a run went wrong; there are no more runs then.
    failure: Option<String>,
}

impl Series {
    pub fn new(placement: Placement) -> Series {
        Series {
            placement,
            samples: Vec::new(),
            failure: None,
        }
    }

    /// Makes one more run, unless one has failed: a hanging one takes seconds.
    pub fn extend(&mut self, run: impl FnOnce(&Placement) -> Result<Sample, String>) {
        if self.failure.is_some() {
            return;
        }
        match run(&self.placement) {
            Ok(sample) => self.samples.push(sample),
            Err(why) => {
                let (number, place) = (self.samples.len() + 1, self.placement.name());
                self.failure = Some(format!("run {number} ({place}) failed: {why}"));
            }
        }
    }

    /// The medians, unless a run failed.
    fn figure(&self) -> Result<Figure, String> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let p99s: Option<Vec<f64>> = self.samples.iter().map(|sample| sample.p99_us).collect();
        Ok(Figure {
            ends: self.placement.name(),
            value: median(self.samples.iter().map(|sample| sample.figure)),
            p99_us: p99s.map(|values| median(values.into_iter())),
            cpu_seconds: median(self.samples.iter().map(|sample| sample.cpu)),
        })
    }

    /// Why this was not a measurement of ulsock, if it was not: in every run both ends must have upgraded.
    fn not_accelerated(&self) -> Option<String> {
        let on_kernel: Vec<&Sample> = self
            .samples
            .iter()
            .filter(|sample| !accelerated(sample))
            .collect();
        if on_kernel.is_empty() {
            return None;
        }
        let why = if on_kernel.iter().all(|sample| sample.usage.is_empty()) {
            "the library did not report; is it loaded?".to_owned()
        } else {
            total(on_kernel.iter().copied()).reason_text()
        };
        Some(format!(
            "on kernel TCP in {} of {} runs: {why}",
            on_kernel.len(),
            self.samples.len()
        ))
    }
}

fn accelerated(sample: &Sample) -> bool {
    sample.usage.len() >= 2 && sample.usage.iter().all(|usage| usage.upgraded > 0)
}

fn total<'a>(samples: impl Iterator<Item = &'a Sample>) -> Usage {
    let mut sum = Usage::default();
    samples
        .flat_map(|sample| &sample.usage)
        .for_each(|usage| sum.add(usage));
    sum
}

/// Medians of a series.
#[derive(Clone, Serialize)]
pub struct Figure {
    /// Where the ends ran.
    pub ends: &'static str,
    /// Microseconds per round trip (mean over a run), or bytes per second.
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// User and system time of both ends, per million round trips or per gigabyte.
    pub cpu_seconds: f64,
}

#[derive(Serialize)]
pub struct Row {
    #[serde(skip)]
    pub scenario: &'static Scenario,
    kind: Kind,
    size: u64,
    unit: &'static str,
    cpu_seconds_per: &'static str,
    /// The better placement.
    pub kernel: Figure,
    /// The ends left to the scheduler.
    pub ulsock: Option<Figure>,
    /// The ends on two cores, when that is better.
    pub ulsock_pinned: Option<Figure>,
    /// How many times better ulsock is; none when it was not used.
    pub ratio: Option<f64>,
    /// Why there is no ratio.
    pub problem: Option<String>,
    /// The part of ulsock's bytes that went through a ring.
    pub ring_share: f64,
}

impl Row {
    /// The first series of both is the one that was left to the scheduler.
    pub fn new(
        scenario: &'static Scenario,
        kernel: &[Series],
        ulsock: &[Series],
    ) -> Result<Row, Failure> {
        let kernel = best(scenario, kernel)
            .map_err(|why| Failure::work(format!("{} on kernel TCP: {why}", scenario.name())))?;
        let (left, pinned) = (&ulsock[0], &ulsock[1..]);
        let figure = left.figure().ok();
        let problem = ulsock
            .iter()
            .find_map(|series| series.failure.clone())
            .or_else(|| left.not_accelerated());
        let used = figure.as_ref().filter(|_| problem.is_none());
        Ok(Row {
            scenario,
            kind: scenario.kind,
            size: scenario.size,
            unit: scenario.unit(),
            cpu_seconds_per: scenario.cpu_unit(),
            ratio: used.map(|figure| scenario.speed_up(kernel.value, figure.value)),
            ulsock_pinned: used.and_then(|left| better_pinned(scenario, left, pinned.first()?)),
            ring_share: total(left.samples.iter()).ring_share(),
            kernel,
            ulsock: figure,
            problem,
        })
    }
}

fn best(scenario: &Scenario, series: &[Series]) -> Result<Figure, String> {
    let figures: Result<Vec<Figure>, String> = series.iter().map(Series::figure).collect();
    let better = |a: Figure, b: Figure| {
        if scenario.better(b.value, a.value) {
            b
        } else {
            a
        }
    };
    let best = figures?.into_iter().reduce(better);
    best.ok_or_else(|| "no runs".to_owned())
}

fn better_pinned(scenario: &Scenario, left: &Figure, pinned: &Series) -> Option<Figure> {
    let figure = pinned.figure().ok()?;
    let better = scenario.better(figure.value, left.value) && pinned.not_accelerated().is_none();
    better.then_some(figure)
}

#[derive(Serialize)]
pub struct Report {
    pub runs: u32,
    pub seconds: f64,
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether every row really compares ulsock with the kernel.
    pub fn accelerated(&self) -> bool {
        self.rows.iter().all(|row| row.ratio.is_some())
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}
