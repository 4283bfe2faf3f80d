//! The rules as tables: the only place to change when the tree gets a new room, or a rule becomes stricter.

use std::fmt;
use std::path::PathBuf;

/// The crate whose rooms stand on floors.
pub const LADDER: &str = "ulsock/sockets";

/// Its rooms, the lowest first: `src/<room>/`. A room imports from itself and from the rooms before it.
pub const FLOORS: &[&str] = &["runtime", "state", "conn", "ready", "promote", "calls"];

/// The C code of the kernel module.
pub const C_FOLDER: &str = "kmod";

/// From the line of the `fn` to the one of its closing brace.
pub const FUNCTION_LINES: usize = 60;

/// The length of a source file.
pub const FILE_LINES: usize = 500;

/// Packages that are no product, but whose functions and files are measured like its own.
pub const MEASURED_TOO: &[&str] = &["benches", "tests", "tests/house"];

/// Rules that a part of the tree does not keep yet: a path that begins like this is named with `HOUSE_ALL=1` only. A line
/// goes when its part is in order.
pub const NOT_ENFORCED: &[(Rule, &str)] = &[];

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Floor,
    Cycle,
    Static,
    Function,
    File,
}

/// One place that breaks a rule.
#[derive(Debug)]
pub struct Violation {
    pub rule: Rule,
    /// From the root of the workspace.
    pub file: PathBuf,
    pub line: usize,
    pub text: String,
}

impl Violation {
    /// Whether it fails the test.
    pub fn is_enforced(&self) -> bool {
        let excused =
            |(rule, path): &(Rule, &str)| *rule == self.rule && self.file.starts_with(path);
        !NOT_ENFORCED.iter().any(excused)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}
