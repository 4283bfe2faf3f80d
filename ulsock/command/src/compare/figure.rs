//! What a figure is in, which way is better, and how it reads.

use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq)]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// Bytes per second.
    Bytes,
    /// Bytes per second, sent in messages of this size: it reads in messages.
    Messages(u64),
    /// Something else per second.
    PerSecond(&'static str),
    /// Seconds of wall-clock time.
    Seconds,
    /// KiB of memory.
    Kib,
    /// What a program printed about itself.
    Found { name: String, lower: bool },
}

impl Unit {
    pub fn lower_is_better(&self) -> bool {
        match self {
            Unit::Micros | Unit::Seconds | Unit::Kib => true,
            Unit::Bytes | Unit::Messages(_) | Unit::PerSecond(_) => false,
            Unit::Found { lower, .. } => *lower,
        }
    }

    pub fn name(&self) -> Cow<'static, str> {
        match self {
            Unit::Micros => "us".into(),
            Unit::Bytes | Unit::Messages(_) => "bytes/s".into(),
            Unit::PerSecond(what) => format!("{what}/s").into(),
            Unit::Seconds => "s".into(),
            Unit::Kib => "KiB".into(),
            Unit::Found { name, .. } => name.clone().into(),
        }
    }

    /// How many times better `new` is than `old`.
    pub fn speed_up(&self, old: f64, new: f64) -> f64 {
        match self.lower_is_better() {
            true => old / new,
            false => new / old,
        }
    }

    pub fn text(&self, value: f64) -> String {
        match self {
            Unit::Micros if value < 0.1 => format!("{:.1} ns", value * 1e3),
            Unit::Micros => format!("{} us", digits(value)),
            Unit::Bytes => scaled(value, "B/s"),
            Unit::Messages(size) => scaled(value / *size as f64, "msg/s"),
            Unit::PerSecond(_) => scaled(value, "/s"),
            Unit::Seconds => format!("{value:.3} s"),
            Unit::Kib if value >= 1024.0 => format!("{} MiB", digits(value / 1024.0)),
            Unit::Kib => format!("{} KiB", digits(value)),
            Unit::Found { name, .. } => format!("{} {name}", digits(value)),
        }
    }
}

/// `100 us` for `100.0 us`: round numbers, beside an axis.
pub fn round_text(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// With a prefix for thousands, and three digits or so.
fn scaled(value: f64, unit: &str) -> String {
    let (prefix, factor) = match value.abs() {
        size if size >= 1e9 => ("G", 1e9),
        size if size >= 1e6 => ("M", 1e6),
        size if size >= 1e3 => ("k", 1e3),
        _ => ("", 1.0),
    };
    format!("{} {prefix}{unit}", digits(value / factor))
}

/// Two decimals for small numbers, none for large ones.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Message sizes as people write them.
pub fn size_text(size: u64) -> String {
    match size {
        size if size >= 1 << 20 && size % (1 << 20) == 0 => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 && size % (1 << 10) == 0 => format!("{} KiB", size >> 10),
        size => format!("{size} B"),
    }
}

/// `1 client`, `50 clients`.
pub fn count_text(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        several => format!("{several} {noun}s"),
    }
}

/// What CPU time is given per.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// A million round trips, requests, connections or transactions.
    Million,
    /// 10⁹ bytes.
    Gigabyte,
    /// A run: the same work for everybody.
    Run,
}

impl Per {
    pub fn name(self) -> &'static str {
        match self {
            Per::Million => "million",
            Per::Gigabyte => "GB",
            Per::Run => "run",
        }
    }
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(Unit::Micros.text(1.496), "1.50 us");
        assert_eq!(Unit::Micros.text(1496.2), "1496 us");
        assert_eq!(Unit::Micros.text(0.0437), "43.7 ns");
        assert_eq!(Unit::Bytes.text(5.5e9), "5.50 GB/s");
        assert_eq!(Unit::Messages(64).text(64.0 * 320e3), "320.0 kmsg/s");
        assert_eq!(Unit::PerSecond("requests").text(107_526.88), "107.5 k/s");
        assert_eq!(round_text("100.0 us"), "100 us");
        assert_eq!(round_text("0.50 us"), "0.5 us");
        assert_eq!(round_text("1000 us"), "1000 us");
        assert_eq!(Unit::Kib.text(37.0), "37.00 KiB");
        assert_eq!(Unit::Kib.text(5120.0), "5.00 MiB");
        assert_eq!(size_text(1), "1 B");
        assert_eq!(size_text(4 << 20), "4 MiB");
        assert_eq!(size_text(1500), "1500 B");
    }

    #[test]
    fn better_is_above_one() {
        assert_eq!(Unit::Micros.speed_up(20.0, 2.0), 10.0);
        assert_eq!(Unit::Bytes.speed_up(2.0, 20.0), 10.0);
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    }
}
