//! Messages one way at full speed, one write each, over the message size.

use super::built_in::BuiltIn;
use super::{Case, Chart, Effort, Scenario, ping_pong};
use crate::compare::contender::Contender;
use crate::compare::figure::{Unit, size_text};
use crate::compare::result::Row;
use crate::compare::series::Figure;

pub const SCENARIO: Scenario = Scenario {
    name: "stream",
    title: "Stream, one way",
    chart: Chart::Sizes,
    quick: true,
    between_hosts: true,
    cases,
    remarks,
    ..Scenario::DEFAULT
};

const QUICK: [u64; 4] = [64, 1 << 10, 16 << 10, 256 << 10];
/// From this size on the bytes should cost more than the call.
const PAYS: f64 = 256.0;
/// Below this size the figure reads in messages, from it on in bytes.
const SMALL: u64 = 4 << 10;

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    effort.cases(&QUICK, &ping_pong::FULL, case)
}

pub fn case(size: u64) -> BuiltIn {
    BuiltIn {
        x: Some(size),
        size,
        references: &[Contender::Unix, Contender::Ring, Contender::Messages],
        ..BuiltIn::new("stream", size_text(size), unit(size))
    }
}

fn unit(size: u64) -> Unit {
    match size < SMALL {
        true => Unit::Messages(size),
        false => Unit::Bytes,
    }
}

fn remarks(rows: &[Row]) -> Vec<String> {
    half_of_peak(rows)
        .into_iter()
        .chain(ring_share(rows, "ulsock", Row::used))
        .chain(ring_share(rows, "native messages", |row| {
            row.reference(Contender::Messages)
        }))
        .collect()
}

fn half_of_peak(rows: &[Row]) -> Option<String> {
    let kernel = reaches_half(&points(rows, |row| row.kernel.as_ref()))?;
    let ulsock = reaches_half(&points(rows, Row::used))?;
    let text = |size: f64| size_text(size.round() as u64);
    Some(format!(
        "Half of its peak bandwidth: kernel TCP at messages of {}, ulsock of {}.",
        text(kernel),
        text(ulsock)
    ))
}

fn points(rows: &[Row], of: fn(&Row) -> Option<&Figure>) -> Vec<(f64, f64)> {
    let point = |row: &Row| Some((row.x?, of(row)?.value));
    rows.iter().filter_map(point).collect()
}

/// The message size from which on the bandwidth is half of the highest; between two sizes by a straight
/// line on log axes. To two digits, for it is no better known.
fn reaches_half(points: &[(f64, f64)]) -> Option<f64> {
    let half = points.iter().map(|point| point.1).fold(0.0, f64::max) / 2.0;
    let at = points.iter().position(|point| point.1 >= half)?;
    let &(x, y) = &points[at];
    // The first size may be beyond it already.
    let &(x0, y0) = points.get(at.checked_sub(1)?)?;
    let part = (half / y0).ln() / (y / y0).ln();
    let size = x0 * (x / x0).powf(part);
    let digit = 10f64.powf((size.log10() - 1.0).floor().max(0.0));
    Some((size / digit).round() * digit)
}

/// What is left of the bare ring's bandwidth: for small messages each, of the others the least.
fn ring_share(rows: &[Row], name: &str, of: fn(&Row) -> Option<&Figure>) -> Option<String> {
    let (mut small, mut least) = (Vec::new(), (f64::MAX, ""));
    for row in rows {
        let (Some(ring), Some(ours)) = (row.reference(Contender::Ring), of(row)) else {
            continue;
        };
        let percent = ours.value / ring.value * 100.0;
        if row.x.is_some_and(|x| x < PAYS) {
            small.push(format!("{} {percent:.0} %", row.label));
        } else if percent < least.0 {
            least = (percent, &row.label);
        }
    }
    let ((percent, label), small) = (least, small.join(", "));
    (!label.is_empty()).then(|| {
        format!(
            "What {name} carry of the bare ring's bandwidth: {small}; from {} up at least {percent:.0} % (at {label}).",
            size_text(PAYS as u64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_peak() {
        let points = [(64.0, 1.0), (256.0, 4.0), (1024.0, 16.0), (4096.0, 12.0)];
        assert_eq!(reaches_half(&points), Some(510.0));
        assert_eq!(reaches_half(&points[2..]), None);
        assert_eq!(reaches_half(&[]), None);
    }
}
