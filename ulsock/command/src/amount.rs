//! Amounts and addresses as people read them.

use std::time::Duration;

use serde::Serializer;
use sockets::observe::Endpoint;

use crate::unix_names;

/// A byte count in three or four digits and a binary unit.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (count.max(1).ilog2() / 10).min(4);
    match unit {
        0 => format!("{count} B"),
        _ => format!(
            "{:.1} {}",
            count as f64 / (1u64 << (10 * unit)) as f64,
            UNITS[unit as usize]
        ),
    }
}

/// A count in at most five characters.
pub fn count(count: f64) -> String {
    match count {
        ..999.5 => format!("{count:.0}"),
        ..999_500.0 => format!("{:.1}k", count / 1e3),
        ..999_500_000.0 => format!("{:.1}M", count / 1e6),
        _ => format!("{:.1}G", count / 1e9),
    }
}

/// How long something has lasted: its two largest units.
pub fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A connection that has carried nothing yet may not know its own address.
pub fn address(end: Option<impl Into<Endpoint>>) -> String {
    match end.map(Into::into) {
        None => "-".to_owned(),
        Some(Endpoint::Inet(address)) => address.to_string(),
        Some(Endpoint::Unix(0)) => "unix".to_owned(),
        Some(Endpoint::Unix(inode)) => match unix_names::name(inode) {
            Some(name) => format!("unix:{name}"),
            None => format!("unix[{inode}]"),
        },
    }
}

/// The same in JSON.
pub fn endpoint_in_json<S: Serializer>(
    end: &Option<Endpoint>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match end {
        Some(end) => serializer.serialize_some(&address(Some(*end))),
        None => serializer.serialize_none(),
    }
}
