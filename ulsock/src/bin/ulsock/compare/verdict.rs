//! What the whole comparison says, in a sentence: for who reads no table.

use super::figure::median;
use super::result::{Report, Row};

/// Ratios this near to 1 are no difference.
const EVEN: std::ops::RangeInclusive<f64> = 0.97..=1.03;

/// A line by its name, and its ratio.
pub type Named = (String, f64);

pub struct Verdict {
    /// Lines with a ratio.
    pub compared: usize,
    pub faster: usize,
    pub even: usize,
    pub slower: usize,
    pub median: f64,
    pub worst: Named,
    /// Lines on which ulsock took no more CPU time than kernel TCP.
    pub cpu: usize,
}

impl Verdict {
    /// None when nothing was compared.
    pub fn of(report: &Report) -> Option<Verdict> {
        let lines: Vec<(String, &Row, f64)> = report.sections.iter().flat_map(ratios).collect();
        let worst = lines.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
        let count = |test: &dyn Fn(f64) -> bool| lines.iter().filter(|line| test(line.2)).count();
        Some(Verdict {
            compared: lines.len(),
            faster: count(&|ratio| ratio > *EVEN.end()),
            even: count(&|ratio| EVEN.contains(&ratio)),
            slower: count(&|ratio| ratio < *EVEN.start()),
            median: median(lines.iter().map(|line| line.2)),
            worst: (worst.0.clone(), worst.2),
            cpu: lines.iter().filter(|line| takes_less_cpu(line.1)).count(),
        })
    }

    pub fn text(&self) -> String {
        let others = match (self.even, self.slower) {
            (0, 0) => String::new(),
            (even, 0) => format!(", as fast in {even}"),
            (0, slower) => format!(", slower in {slower}"),
            (even, slower) => format!(", as fast in {even}, slower in {slower}"),
        };
        format!(
            "ulsock is faster in {} of {}{others}; median {:.1}x, least {:.2}x ({}). It takes less CPU time in {} of {}.",
            self.faster, self.compared, self.median, self.worst.1, self.worst.0, self.cpu, self.compared
        )
    }
}

fn ratios(section: &super::result::Section) -> impl Iterator<Item = (String, &Row, f64)> {
    let named = |row| format!("{}, {}", section.name, row);
    section
        .rows
        .iter()
        .filter_map(move |row| Some((named(&row.label), row, row.ratio?)))
}

fn takes_less_cpu(row: &Row) -> bool {
    let less = |kernel: f64, ours: f64| ours <= kernel * EVEN.end();
    match (&row.kernel, row.used()) {
        (Some(kernel), Some(ours)) => less(kernel.cpu_seconds, ours.cpu_seconds),
        _ => false,
    }
}
