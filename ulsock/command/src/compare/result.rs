//! From series to rows: the kernel's better placement, the ratio, and what the reader must know.

use serde::Serialize;

use super::contender::{Contender, Rivals, distinct};
use super::figure::Unit;
use super::scenario::{Chart, Line};
use super::series::{Figure, Series, failures};

#[derive(Serialize)]
pub struct Row {
    pub label: String,
    /// The message size or the number of connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    #[serde(serialize_with = "unit_name")]
    pub unit: Unit,
    lower_is_better: bool,
    pub cpu_seconds_per: &'static str,
    /// The better placement.
    pub kernel: Option<Figure>,
    /// The ends left to the scheduler, where they can be; the better placement if it stays on kernel TCP.
    pub ulsock: Option<Figure>,
    /// The ends on two cores, when that is better.
    pub ulsock_pinned: Option<Figure>,
    /// Others, each at its better placement.
    pub references: Vec<Figure>,
    /// How many times better ulsock is than kernel TCP; none when it was not used, or in no race.
    pub ratio: Option<f64>,
    #[serde(skip)]
    race: bool,
    /// Whether ulsock was used, as far as it is meant to be.
    #[serde(skip)]
    used: bool,
    /// Why something is missing.
    pub problems: Vec<String>,
    /// Why ulsock left connections on kernel TCP, where that is for it to decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_on_kernel: Option<String>,
    /// The part of ulsock's bytes that went through a ring.
    pub ring_share: f64,
    /// Whether the connections are meant to leave kernel TCP.
    pub rings: bool,
}

fn unit_name<S: serde::Serializer>(unit: &Unit, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&unit.name())
}

impl Row {
    /// The row of a case's line with this number. Of each contender, the first series is the one that
    /// was left to the scheduler.
    pub fn new(number: usize, line: Line, rivals: Rivals, series: &[Series]) -> Row {
        let of = |contender: Contender| -> Vec<&Series> {
            series
                .iter()
                .filter(|series| series.how.contender == contender)
                .collect()
        };
        let kernel = best(number, &line.unit, &of(rivals.kernel));
        let ours = of(rivals.ulsock);
        let left = ours.first();
        let unused = left
            .filter(|_| line.rings)
            .and_then(|series| series.not_accelerated());
        let (unused, left_on_kernel) = match line.hybrid {
            true => (None, unused),
            false => (unused, None),
        };
        // Where both stay on the kernel, one placement against the better of two would tell of placements.
        let ulsock = match left_on_kernel.is_some() || !line.rings {
            true => best(number, &line.unit, &ours),
            false => left.and_then(|series| series.figure(number)),
        };
        let used = ulsock.as_ref().filter(|_| unused.is_none());
        let ratio = |kernel: &Figure| Some(line.unit.speed_up(kernel.value, used?.value));
        let kernel_raced = kernel.as_ref().filter(|_| line.race);
        let mut problems = failures(series);
        problems.extend(unused);
        Row {
            x: line.x,
            lower_is_better: line.unit.lower_is_better(),
            cpu_seconds_per: line.per.name(),
            ratio: kernel_raced.and_then(ratio),
            race: line.race,
            used: used.is_some(),
            ulsock_pinned: used.and_then(|left| better_pinned(number, &line.unit, left, &ours)),
            references: references(number, &line.unit, rivals, series),
            ring_share: left.map_or(0.0, |series| series.ring_share()),
            label: line.label,
            unit: line.unit,
            rings: line.rings,
            kernel,
            ulsock,
            problems,
            left_on_kernel,
        }
    }

    pub fn reference(&self, contender: Contender) -> Option<&Figure> {
        let mut references = self.references.iter();
        references.find(|figure| figure.contender == contender)
    }

    /// Whether it says all that it is meant to say.
    fn is_complete(&self) -> bool {
        let raced = self.ratio.is_some() || !self.race;
        raced && self.used && self.kernel.is_some() && self.problems.is_empty()
    }

    /// ulsock's figure, unless it is one of kernel TCP under its name.
    pub fn used(&self) -> Option<&Figure> {
        self.ulsock.as_ref().filter(|_| self.used)
    }
}

/// The better one, if none of its placements failed.
fn best(number: usize, unit: &Unit, series: &[&Series]) -> Option<Figure> {
    let figures: Option<Vec<Figure>> = series.iter().map(|series| series.figure(number)).collect();
    let better = |a: Figure, b: Figure| match unit.speed_up(a.value, b.value) > 1.0 {
        true => b,
        false => a,
    };
    figures?.into_iter().reduce(better)
}

fn better_pinned(number: usize, unit: &Unit, left: &Figure, ours: &[&Series]) -> Option<Figure> {
    let pinned = ours
        .get(1)
        .filter(|series| series.not_accelerated().is_none())?;
    let figure = pinned.figure(number)?;
    (unit.speed_up(left.value, figure.value) > 1.0).then_some(figure)
}

fn references(number: usize, unit: &Unit, rivals: Rivals, series: &[Series]) -> Vec<Figure> {
    let others = series.iter().map(|series| series.how.contender);
    let others = others.filter(|contender| !rivals.both().contains(contender));
    let of = |contender: &Contender| -> Vec<&Series> {
        series
            .iter()
            .filter(|series| series.how.contender == *contender)
            .collect()
    };
    distinct(others)
        .iter()
        .filter_map(|other| best(number, unit, &of(other)))
        .collect()
}

/// The rows of a scenario.
#[derive(Serialize)]
pub struct Section {
    pub name: String,
    pub title: String,
    #[serde(skip)]
    pub chart: Chart,
    #[serde(skip)]
    pub rivals: Rivals,
    pub rows: Vec<Row>,
    /// What the rows say together.
    pub remarks: Vec<String>,
}

/// A scenario that was left out, and what would cure that.
#[derive(Serialize)]
pub struct Skipped {
    pub name: String,
    pub packages: Vec<&'static str>,
}

#[derive(Serialize)]
pub struct Report {
    pub host: Host,
    /// Runs of each kind; the figures are medians of so many.
    pub runs: u32,
    pub seconds: f64,
    /// Whether the ends were on two hosts.
    pub hosts: bool,
    pub sections: Vec<Section>,
    pub skipped: Vec<Skipped>,
}

impl Report {
    /// How many runs there were of each kind, and how long.
    pub fn effort(&self) -> String {
        let between = match self.hosts {
            true => " between two hosts, which are network namespaces here",
            false => "",
        };
        match self.runs {
            1 => format!("One run of {} s{between}", self.seconds),
            runs => format!("Medians of {runs} runs of {} s{between}", self.seconds),
        }
    }

    /// Whether every row really compares ulsock with the kernel.
    pub fn complete(&self) -> bool {
        let mut rows = self.sections.iter().flat_map(|section| &section.rows);
        rows.all(|row| row.is_complete())
    }
}

/// Where this was measured.
#[derive(Serialize)]
pub struct Host {
    pub system: String,
    pub cpu: String,
    pub cpus: usize,
    /// What `ULSOCK_PROFILE` says; empty for the default.
    pub profile: String,
    pub ulsock: &'static str,
}

impl Host {
    pub fn here() -> Host {
        let name = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info
            .lines()
            .find_map(|line| line.strip_prefix("model name"));
        Host {
            system: format!("{} {}", text(name.sysname()), text(name.release())),
            cpu: model.map_or(String::new(), |model| {
                model.trim_start_matches(['\t', ' ', ':']).to_owned()
            }),
            cpus: super::cores::allowed().len(),
            profile: std::env::var("ULSOCK_PROFILE").unwrap_or_default(),
            ulsock: env!("CARGO_PKG_VERSION"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cores::Placement;
    use crate::compare::figure::Per;
    use crate::compare::series::tests::series;

    const PINNED: Placement = Placement::TwoCores {
        server: 0,
        client: 1,
    };

    fn row(upgraded: u64, rings: bool) -> Row {
        hybrid_row(upgraded, rings, false)
    }

    fn hybrid_row(upgraded: u64, rings: bool, hybrid: bool) -> Row {
        let left = Placement::Scheduler;
        let all = [
            series(Contender::Kernel, left, &[20.0], 0),
            series(Contender::Ulsock, left, &[5.0], upgraded),
            series(Contender::Unix, left, &[8.0], 0),
            series(Contender::Ring, left, &[1.0], 0),
            series(Contender::Kernel, PINNED, &[10.0], 0),
            series(Contender::Ulsock, PINNED, &[2.0], upgraded),
            series(Contender::Unix, PINNED, &[9.0], 0),
            series(Contender::Ring, PINNED, &[0.5], 0),
        ];
        let line = Line::new("64 B", Unit::Micros, Per::Million);
        Row::new(
            0,
            Line {
                rings,
                hybrid,
                ..line
            },
            Rivals::TCP,
            &all,
        )
    }

    #[test]
    fn the_kernel_at_its_best() {
        let row = row(1, true);
        assert_eq!(
            row.kernel.as_ref().map(|figure| figure.ends),
            Some("two cores")
        );
        assert_eq!(row.ratio, Some(2.0));
        assert_eq!(
            row.ulsock_pinned.as_ref().map(|figure| figure.value),
            Some(2.0)
        );
        let references: Vec<f64> = row.references.iter().map(|figure| figure.value).collect();
        assert_eq!(references, [8.0, 0.5]);
        assert!(row.problems.is_empty());
    }

    /// What stays on the kernel by choice is placed as well as the kernel is.
    #[test]
    fn the_kernel_against_itself() {
        let row = hybrid_row(0, true, true);
        assert_eq!(row.ratio, Some(5.0));
        assert_eq!(row.used().map(|figure| figure.value), Some(2.0));
        assert!(row.problems.is_empty() && row.left_on_kernel.is_some());
        assert_eq!(hybrid_row(1, true, true).ratio, Some(2.0));
    }

    #[test]
    fn the_kernel_is_not_sold_as_ulsock() {
        let unused = row(0, true);
        assert!(unused.ratio.is_none() && unused.used().is_none() && unused.problems.len() == 1);
        // Short connections are not meant to leave it: then it is placed as well as the kernel is.
        assert_eq!(row(0, false).ratio, Some(5.0));
    }
}
