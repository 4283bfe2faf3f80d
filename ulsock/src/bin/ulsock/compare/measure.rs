//! Runs the cases: contenders take turns, so that what the machine does to one in these seconds it
//! does to the others.

use super::progress::Progress;
use super::result::{Row, Section};
use super::scenario::{Case, Chart};
use super::series::Series;
use super::stage::{How, Stage};

/// A scenario about to be measured.
pub struct Plan {
    pub name: String,
    pub title: String,
    pub chart: Chart,
    pub cases: Vec<Box<dyn Case>>,
}

impl Plan {
    /// How many runs it takes.
    pub fn steps(&self, runs: u32) -> usize {
        self.cases
            .iter()
            .map(|case| series_of(case.as_ref()).len() * runs as usize)
            .sum()
    }
}

pub fn section(plan: &Plan, stage: &Stage, runs: u32, progress: &Progress) -> Section {
    let cases = plan.cases.iter();
    Section {
        name: plan.name.clone(),
        title: plan.title.clone(),
        chart: plan.chart,
        rows: cases
            .flat_map(|case| rows(case.as_ref(), stage, runs, progress))
            .collect(),
    }
}

fn rows(case: &dyn Case, stage: &Stage, runs: u32, progress: &Progress) -> Vec<Row> {
    let mut series = series_of(case);
    for _ in 0..runs {
        for series in &mut series {
            series.extend(|how| case.run(how, stage));
            progress.step();
        }
    }
    let lines = case.lines().into_iter().enumerate();
    lines
        .map(|(number, line)| Row::new(number, line, &series))
        .collect()
}

/// One series for each contender and placement; at each placement the contenders follow each other.
fn series_of(case: &dyn Case) -> Vec<Series> {
    let placements = case.placements();
    let mut series = Vec::new();
    for (number, &placement) in placements.iter().enumerate() {
        for contender in case.contenders() {
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
