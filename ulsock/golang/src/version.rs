//! The versions of Go that we know.

use std::fmt;

/// Such as 1.27.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub minor: u32,
}

impl Version {
    pub const OLDEST: Version = Version { minor: 19 };
    pub const NEWEST: Version = Version { minor: 27 };

    /// As the program says it, if it is one that we know: "go1.27.3", "go1.27.3 X:experiment", "go1.27rc1".
    pub(crate) fn known(text: &str) -> Option<Version> {
        let minor = text.strip_prefix("go1.").and_then(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())].parse().ok()
        });
        let version = minor.map(|minor| Version { minor });
        let known = Version::OLDEST..=Version::NEWEST;
        version.filter(|version| known.contains(version))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "go1.{}", self.minor)
    }
}
