//! Looks for the figure that a program prints about itself: a number with a unit that says speed.

use super::figure::Unit;
use super::scenario::text::{leading_number, number_after};

/// A unit as programs write it, and whether less of it is better. Rates come first: a program that
/// prints both a rate and a time means the rate.
const UNITS: [(&str, bool); 26] = [
    ("requests per second", false),
    ("requests/sec", false),
    ("requests/s", false),
    ("req/s", false),
    ("transactions/s", false),
    ("tps", false),
    ("queries/s", false),
    ("qps", false),
    ("ops/sec", false),
    ("ops/s", false),
    ("messages/s", false),
    ("msg/s", false),
    ("gbits/sec", false),
    ("mbits/sec", false),
    ("gbit/s", false),
    ("mbit/s", false),
    ("mbps", false),
    ("gb/s", false),
    ("gib/s", false),
    ("mb/s", false),
    ("mib/s", false),
    ("bytes/s", false),
    ("usec", true),
    ("us", true),
    ("ms", true),
    ("ns", true),
];

/// The number after `mark`, whatever it means; time if its unit says so.
pub fn after(text: &str, mark: &str) -> Option<(f64, Unit)> {
    let value = number_after(text, mark)?;
    let lower = ["latency", "time", "rtt", "delay"];
    let name = mark.trim_matches(|c: char| c.is_whitespace() || "=:\"".contains(c));
    let lower = lower.iter().any(|word| name.to_lowercase().contains(word));
    let name = name.to_owned();
    Some((value, Unit::Found { name, lower }))
}

/// The figure of the best-known unit; of several, the last: totals come at the end.
pub fn any(text: &str) -> Option<(f64, Unit)> {
    UNITS.iter().find_map(|(name, lower)| {
        let value = text.lines().rev().find_map(|line| with_unit(line, name))?;
        let (name, lower) = ((*name).to_owned(), *lower);
        Some((value, Unit::Found { name, lower }))
    })
}

/// `123.4 UNIT`, `UNIT: 123.4`, `UNIT = 123.4`.
fn with_unit(line: &str, unit: &str) -> Option<f64> {
    let line = line.to_lowercase();
    let mut at = 0;
    while let Some(found) = line[at..].find(unit) {
        let (start, end) = (at + found, at + found + unit.len());
        let (before, after) = (&line[..start], &line[end..]);
        if is_word(before, after) {
            let value = trailing_number(before).or_else(|| labelled(after));
            if value.is_some() {
                return value;
            }
        }
        at = end;
    }
    None
}

/// Not in the middle of another word.
fn is_word(before: &str, after: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '/';
    !before.ends_with(letter) && !after.starts_with(letter)
}

fn trailing_number(text: &str) -> Option<f64> {
    let text = text.trim_end();
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let start = text.rfind(|c| !is_part(c)).map_or(0, |at| at + 1);
    text.get(start..)?.parse().ok()
}

/// A number behind `:` or `=`.
fn labelled(text: &str) -> Option<f64> {
    let rest = text.trim_start().strip_prefix([':', '='])?;
    leading_number(rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(f64, String, bool)> {
        let (value, unit) = any(text)?;
        Some((value, unit.name().into_owned(), unit.lower_is_better()))
    }

    #[test]
    fn well_known_programs() {
        let cases = [
            (
                "  GET: 66225.17 requests per second, p50=0.015 msec",
                66225.17,
                false,
            ),
            (
                "Requests/sec:  63142.63\nTransfer/sec:     14.33MB",
                63142.63,
                false,
            ),
            (
                "Requests per second:    18117.36 [#/sec] (mean)\nTime per request: 0.4 [ms]",
                18117.36,
                false,
            ),
            (
                "tps = 31881.147 (without initial connection time)",
                31881.147,
                false,
            ),
            (
                "[  5]  0.00-1.00 sec  3.5 GBytes  30.5 Gbits/sec  0  sender\n[  5] 3.4 GBytes 29.5 Gbits/sec receiver",
                29.5,
                false,
            ),
            ("sockperf: Summary: Round trip is 14.717 usec", 14.717, true),
            (
                "20:      64 bytes   5605 times -->     57.58 Mbps in       8.48 usec",
                57.58,
                false,
            ),
        ];
        for (text, value, lower) in cases {
            let (number, _, less) = found(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((number, less), (value, lower), "{text}");
        }
    }

    #[test]
    fn no_figure() {
        for text in [
            "",
            "done",
            "3 plus 4",
            "status: 200",
            "campus 7",
            "took 12 s",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn what_the_user_names() {
        let (value, unit) = after("score: 17.5 points", "score:").expect("a number");
        assert_eq!((value, unit.lower_is_better()), (17.5, false));
        let (_, unit) = after("mean latency = 3", "mean latency =").expect("a number");
        assert!(unit.lower_is_better());
    }
}
