//! The runs of one contender at one placement: their medians, and whether ulsock was really used.

use serde::Serialize;

use super::contender::Contender;
use super::figure::median;
use super::scenario::Reading;
use super::stage::How;
use super::usage::Usage;

pub struct Series {
    pub how: How,
    readings: Vec<Reading>,
    /// How a run went wrong; there are no more runs then.
    pub failure: Option<String>,
}

/// What went wrong, each once, with all those it happened to.
pub fn failures(series: &[Series]) -> Vec<String> {
    let mut causes: Vec<(&str, Vec<String>)> = Vec::new();
    for series in series {
        let Some(why) = &series.failure else {
            continue;
        };
        let who = format!(
            "{} ({})",
            series.how.contender.name(),
            series.how.placement.name()
        );
        match causes.iter_mut().find(|(known, _)| known == why) {
            Some((_, all)) => all.push(who),
            None => causes.push((why, vec![who])),
        }
    }
    let causes = causes.iter();
    causes
        .map(|(why, who)| format!("{} failed: {why}", who.join(", ")))
        .collect()
}

/// Medians of a series, for one line.
#[derive(Clone, Serialize)]
pub struct Figure {
    pub contender: Contender,
    /// Where the ends ran.
    pub ends: &'static str,
    pub value: f64,
    /// CPU seconds of both ends, per what the line says.
    pub cpu_seconds: f64,
    /// The figure of each run, in their order.
    pub runs: Vec<f64>,
    /// Percent and microseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<(f64, f64)>,
}

impl Series {
    pub fn new(how: How) -> Series {
        Series {
            how,
            readings: Vec::new(),
            failure: None,
        }
    }

    /// Makes one more run, unless one has failed: a hanging one takes long.
    pub fn extend(&mut self, run: impl FnOnce(&How) -> Result<Reading, String>) {
        if self.failure.is_some() {
            return;
        }
        match run(&self.how) {
            Ok(reading) => self.readings.push(reading),
            Err(why) => self.failure = Some(why),
        }
    }

    /// The medians for a line, unless a run failed.
    pub fn figure(&self, line: usize) -> Option<Figure> {
        if self.failure.is_some() {
            return None;
        }
        let runs: Option<Vec<f64>> = self
            .readings
            .iter()
            .map(|reading| reading.values.get(line).copied())
            .collect();
        let runs = runs.filter(|runs| !runs.is_empty())?;
        Some(Figure {
            contender: self.how.contender,
            ends: self.how.contender.ends(self.how.placement),
            value: median(runs.iter().copied()),
            cpu_seconds: median(self.readings.iter().map(|reading| reading.cpu)),
            runs,
            percentiles: self.percentiles(),
        })
    }

    /// Each percentile's median, as far as all runs have it.
    fn percentiles(&self) -> Vec<(f64, f64)> {
        let points = self
            .readings
            .iter()
            .map(|reading| reading.percentiles.len())
            .min();
        let median_at = |point: usize| {
            let percent = self.readings[0].percentiles[point].0;
            (
                percent,
                median(
                    self.readings
                        .iter()
                        .map(|reading| reading.percentiles[point].1),
                ),
            )
        };
        (0..points.unwrap_or(0)).map(median_at).collect()
    }

    /// Why this was not a measurement of ulsock, if it was not: in every run the ends must have
    /// upgraded.
    pub fn not_accelerated(&self) -> Option<String> {
        let on_kernel: Vec<&Reading> = self
            .readings
            .iter()
            .filter(|reading| !accelerated(reading))
            .collect();
        if on_kernel.is_empty() {
            return None;
        }
        let why = if on_kernel
            .iter()
            .all(|reading| reading.usage.iter().all(Option::is_none))
        {
            "the library did not report; is it loaded?".to_owned()
        } else {
            total(on_kernel.iter().copied()).reason_text()
        };
        let (some, all) = (on_kernel.len(), self.readings.len());
        let fallback = self.how.contender.fallback();
        Some(format!("on {fallback} in {some} of {all} runs: {why}"))
    }

    /// The part of all bytes that went through a ring.
    pub fn ring_share(&self) -> f64 {
        total(self.readings.iter()).ring_share()
    }
}

/// A server that dies of its signal makes no report: then the client's speaks for both, for nothing
/// moves without the other end.
fn accelerated(reading: &Reading) -> bool {
    let mut reports = reading.usage.iter().flatten().peekable();
    reports.peek().is_some() && reports.all(|usage| usage.upgraded > 0)
}

fn total<'a>(readings: impl Iterator<Item = &'a Reading>) -> Usage {
    let mut sum = Usage::default();
    let usages = readings.flat_map(|reading| reading.usage.iter().flatten());
    usages.for_each(|usage| sum.add(usage));
    sum
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::compare::cores::Placement;

    /// A series with these figures, whose ends reported so many upgrades.
    pub fn series(
        contender: Contender,
        placement: Placement,
        values: &[f64],
        upgraded: u64,
    ) -> Series {
        let mut series = Series::new(How {
            contender,
            placement,
        });
        for value in values {
            let usage = Usage {
                upgraded,
                ..Usage::default()
            };
            let reading = Reading {
                values: vec![*value],
                percentiles: vec![(50.0, *value), (99.0, 2.0 * value)],
                cpu: 1.0,
                usage: [None, Some(usage)],
            };
            series.extend(|_| Ok(reading));
        }
        series
    }

    #[test]
    fn medians_of_runs() {
        let series = series(Contender::Kernel, Placement::Scheduler, &[3.0, 1.0, 2.0], 0);
        let figure = series.figure(0).expect("a figure");
        assert_eq!((figure.value, figure.runs.len()), (2.0, 3));
        assert_eq!(figure.percentiles, [(50.0, 2.0), (99.0, 4.0)]);
        assert!(series.figure(1).is_none());
    }

    #[test]
    fn a_failure_ends_it() {
        let mut series = series(Contender::Ulsock, Placement::Scheduler, &[1.0], 1);
        series.extend(|_| Err("broken".to_owned()));
        series.extend(|_| panic!("no more runs"));
        assert!(series.figure(0).is_none());
        assert_eq!(failures(&[series]), ["ulsock (scheduler) failed: broken"]);
    }

    #[test]
    fn used_or_not() {
        let one = |upgraded| series(Contender::Ulsock, Placement::Scheduler, &[1.0], upgraded);
        assert_eq!(one(1).not_accelerated(), None);
        assert!(
            one(0)
                .not_accelerated()
                .is_some_and(|why| why.contains("1 of 1 runs"))
        );
    }
}
