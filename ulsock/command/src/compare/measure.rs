//! Runs the cases: contenders take turns, so that what the machine does to one in these seconds it
//! does to the others.

use super::bout::Bout;
use super::contender::Contender;
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
        let mut contenders = vec![Contender::Kernel, Contender::Ulsock];
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
            let series = plan.series_of(case.as_ref());
            rows(case.as_ref(), series, stage, runs, progress)
        })
        .collect();
    Section {
        name: plan.name.clone(),
        title: plan.title.clone(),
        chart: plan.chart,
        remarks: (plan.remarks)(&rows),
        rows,
    }
}

fn rows(
    case: &dyn Case,
    mut series: Vec<Series>,
    stage: &Stage,
    runs: u32,
    progress: &Progress,
) -> Vec<Row> {
    for _ in 0..runs {
        for series in &mut series {
            series.extend(|how| case.run(&Bout::new(how, stage)?));
            progress.step();
        }
        // Nobody is always the first.
        series.reverse();
    }
    if runs % 2 == 1 {
        series.reverse();
    }
    let hybrid = stage.between_hosts();
    let lines = case.lines().into_iter().enumerate();
    lines
        .map(|(number, line)| Row::new(number, Line { hybrid, ..line }, &series))
        .collect()
}
