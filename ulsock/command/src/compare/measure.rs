//! Runs the cases: contenders take turns, so that what the machine does to one in these seconds it
//! does to the others.

use super::bout::Bout;
use super::contender::Rivals;
use super::cores::Placement;
use super::progress::Progress;
use super::result::{Row, Section};
use super::scenario::{Case, Chart, Line};
use super::series::Series;
use super::stage::{How, Stage};

/// A scenario about to be measured.
pub struct Plan {
    pub name: String,
    pub title: String,
    pub chart: Chart,
    pub cases: Vec<Box<dyn Case>>,
    pub remarks: fn(&[Row]) -> Vec<String>,
    /// Whom it compares.
    pub rivals: Rivals,
    /// Whether the references run too.
    pub references: bool,
    /// The placement of all, in place of what the cases have.
    pub ends: Option<Placement>,
}

impl Plan {
    /// How many runs it takes.
    pub fn steps(&self, runs: u32) -> usize {
        self.cases
            .iter()
            .map(|case| self.series_of(case.as_ref()).len() * runs as usize)
            .sum()
    }

    /// One series for each contender and placement; at each placement the contenders follow each other.
    fn series_of(&self, case: &dyn Case) -> Vec<Series> {
        let placements = match self.ends {
            Some(placement) => vec![placement],
            None => case.placements(),
        };
        let mut contenders = self.rivals.both().to_vec();
        if self.references {
            contenders.extend(case.references());
        }
        let mut series = Vec::new();
        for (number, &placement) in placements.iter().enumerate() {
            for &contender in &contenders {
                if number < contender.placements(&placements).len() {
                    series.push(Series::new(How {
                        contender,
                        placement,
                    }));
                }
            }
        }
        series
    }
}

pub fn section(plan: &Plan, stage: &Stage, runs: u32, progress: &Progress) -> Section {
    let rows: Vec<Row> = plan
        .cases
        .iter()
        .flat_map(|case| {
            let mut series = plan.series_of(case.as_ref());
            run(case.as_ref(), &mut series, stage, runs, progress);
            rows(case.as_ref(), plan, &series, stage)
        })
        .collect();
    Section {
        name: plan.name.clone(),
        title: plan.title.clone(),
        chart: plan.chart,
        rivals: plan.rivals,
        remarks: (plan.remarks)(&rows),
        rows,
    }
}

fn run(case: &dyn Case, series: &mut [Series], stage: &Stage, runs: u32, progress: &Progress) {
    for _ in 0..runs {
        for series in series.iter_mut() {
            series.extend(|how| case.run(&Bout::new(how, stage)?));
            progress.step();
        }
        // Nobody is always the first.
        series.reverse();
    }
    if runs % 2 == 1 {
        series.reverse();
    }
}

fn rows(case: &dyn Case, plan: &Plan, series: &[Series], stage: &Stage) -> Vec<Row> {
    let hybrid = stage.between_hosts();
    let lines = case.lines().into_iter().enumerate();
    lines
        .map(|(number, line)| Row::new(number, Line { hybrid, ..line }, plan.rivals, series))
        .collect()
}
