//! What the whole comparison says, in two sentences, for a reader who skips the tables.

use super::figure::median;
use super::result::{Report, Row};

/// Ratios this near to 1 are no difference.
const EVEN: std::ops::RangeInclusive<f64> = 0.97..=1.03;

/// A line by its name, and its ratio.
pub type Named = (String, f64);

/// Lines by how ulsock does on them against kernel TCP.
#[derive(Default, Clone, Copy, Debug, PartialEq)]
pub struct Tally {
    pub better: usize,
    /// The difference is too small to count.
    pub even: usize,
    pub worse: usize,
}

impl Tally {
    /// A ratio above 1 is in ulsock's favour.
    fn of(ratios: impl Iterator<Item = f64>) -> Tally {
        ratios.fold(Tally::default(), |mut tally, ratio| {
            match ratio {
                ratio if ratio > *EVEN.end() => tally.better += 1,
                ratio if ratio < *EVEN.start() => tally.worse += 1,
                _ => tally.even += 1,
            }
            tally
        })
    }

    /// The lines that are not better, each kind with its word; empty if there are none.
    fn others(&self, even: &str, worse: &str) -> String {
        let kinds = [(even, self.even), (worse, self.worse)];
        let kinds = kinds.iter().filter(|(_, lines)| *lines > 0);
        kinds
            .map(|(word, lines)| format!(", {word} in {lines}"))
            .collect()
    }
}

pub struct Verdict {
    /// Lines with a ratio.
    pub compared: usize,
    pub speed: Tally,
    pub cpu: Tally,
    pub median: f64,
    pub worst: Named,
}

impl Verdict {
    /// None when nothing was compared.
    pub fn of(report: &Report) -> Option<Verdict> {
        let lines: Vec<(String, &Row, f64)> = report.sections.iter().flat_map(ratios).collect();
        let worst = lines.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
        Some(Verdict {
            compared: lines.len(),
            speed: Tally::of(lines.iter().map(|line| line.2)),
            cpu: Tally::of(lines.iter().filter_map(|line| cpu_ratio(line.1))),
            median: median(lines.iter().map(|line| line.2)),
            worst: (worst.0.clone(), worst.2),
        })
    }

    pub fn text(&self) -> String {
        format!(
            "ulsock is faster in {} of {}{}; median {:.1}x, least {:.2}x ({}). It takes less CPU time in {} of {}{}.",
            self.speed.better,
            self.compared,
            self.speed.others("as fast", "slower"),
            self.median,
            self.worst.1,
            self.worst.0,
            self.cpu.better,
            self.compared,
            self.other_cpu()
        )
    }

    /// On how many lines ulsock does not take less CPU time; empty if on none.
    pub fn other_cpu(&self) -> String {
        self.cpu.others("as much", "more")
    }
}

fn ratios(section: &super::result::Section) -> impl Iterator<Item = (String, &Row, f64)> {
    let named = |row| format!("{}, {}", section.name, row);
    section
        .rows
        .iter()
        .filter_map(move |row| Some((named(&row.label), row, row.ratio?)))
}

/// How many times less CPU time ulsock took.
fn cpu_ratio(row: &Row) -> Option<f64> {
    let (kernel, ours) = (row.kernel.as_ref()?.cpu_seconds, row.used()?.cpu_seconds);
    // Neither has a measurable time in the shortest runs.
    Some(if kernel == ours { 1.0 } else { kernel / ours })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A verdict on lines with these ratios of speed and of CPU time.
    pub fn verdict(speed: &[f64], cpu: &[f64]) -> Verdict {
        Verdict {
            compared: speed.len(),
            speed: Tally::of(speed.iter().copied()),
            cpu: Tally::of(cpu.iter().copied()),
            median: 2.0,
            worst: ("churn, short".to_owned(), 0.99),
        }
    }

    #[test]
    fn what_is_within_the_tolerance_is_neither_better_nor_worse() {
        let tally = Tally::of([1.031, 1.03, 1.0, 0.97, 0.969, f64::INFINITY].into_iter());
        let expected = Tally {
            better: 2,
            even: 3,
            worse: 1,
        };
        assert_eq!(tally, expected);
    }

    /// 2 % more CPU time is as much, not less.
    #[test]
    fn less_as_much_and_more_are_counted_each() {
        let text = verdict(&[2.0, 1.0, 0.5, 3.0], &[4.0, 1.0 / 1.02, 0.9, 1.5]).text();
        let expected = "ulsock is faster in 2 of 4, as fast in 1, slower in 1; median 2.0x, least 0.99x \
                        (churn, short). It takes less CPU time in 2 of 4, as much in 1, more in 1.";
        assert_eq!(text, expected);
    }

    #[test]
    fn kinds_without_lines_are_not_named() {
        let text = verdict(&[2.0, 3.0], &[4.0, 0.5]).text();
        assert!(
            text.starts_with("ulsock is faster in 2 of 2; median"),
            "{text}"
        );
        assert!(
            text.ends_with("less CPU time in 1 of 2, more in 1."),
            "{text}"
        );
        assert!(verdict(&[2.0], &[4.0]).text().ends_with("in 1 of 1."));
    }
}
