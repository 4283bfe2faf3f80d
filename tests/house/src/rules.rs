//! The rules as tables: the only place to change when the tree gets a new room, or a rule becomes stricter.

use std::fmt;
use std::path::PathBuf;

/// The crate whose rooms stand on floors. While it does not exist its rules do nothing.
pub const LADDER: &str = "ulsock/sockets";

/// Its rooms, the lowest first: `src/<room>/`. A room imports from itself and from the rooms before it.
pub const FLOORS: &[&str] = &["runtime", "state", "conn", "ready", "promote", "calls"];

/// Crates in which nothing but the lengths is checked: the crate that is being taken apart.
pub const NO_GRAPH: &[&str] = &["ulsock"];

/// The C code of the kernel module.
pub const C_FOLDER: &str = "kmod";

/// From the line of the `fn` to the one of its closing brace.
pub const FUNCTION_LINES: usize = 60;

/// The length of a source file.
pub const FILE_LINES: usize = 500;

/// Packages that are no product, but whose functions and files are measured like its own.
pub const MEASURED_TOO: &[&str] = &["benches", "tests", "tests/house"];

/// The rules that are printed with `HOUSE_ALL=1` only, until the tree keeps them.
pub const NOT_ENFORCED: &[Rule] = &[Rule::Cycle, Rule::Static, Rule::Function];

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

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}
