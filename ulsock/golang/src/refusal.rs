//! Why a program cannot be served.

use std::fmt;

use crate::version::Version;

/// Why one cannot be served, in words that `ulsock doctor` says, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The file is broken, or made in a way that we do not know.
    Part(&'static str),
    /// Its threads are not libc's.
    OwnThreads,
    /// It loads plugins, which have calls of their own.
    Plugins,
    /// Made by a version that we do not know.
    Version(String),
    /// A function has other instructions than those we know.
    Instructions(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Part(what) => write!(f, "its {what} cannot be read"),
            Refusal::OwnThreads => write!(
                f,
                "it makes its threads without libc (built with CGO_ENABLED=0, or without a package that uses cgo)"
            ),
            Refusal::Plugins => write!(f, "it can load plugins, whose calls cannot be led to us"),
            Refusal::Version(version) => write!(
                f,
                "it was built by {version}, and known are {} to {}",
                Version::OLDEST,
                Version::NEWEST
            ),
            Refusal::Instructions(name) => {
                write!(
                    f,
                    "its function {name} is not as the known versions have it"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}
