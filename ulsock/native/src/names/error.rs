//! What can go wrong with names.

use std::fmt;
use std::io;

use rendezvous::names::{LONGEST, NotPublished};
use rustix::io::Errno;

use super::MOST_NAMES;

#[derive(Debug)]
pub enum NameError {
    /// A service has letters, digits, `-`, `_` and `.`, and begins with a letter or a digit.
    BadName,
    /// The address has no port.
    NoPort,
    /// A living process of this user has the name on this host.
    Taken {
        pid: u32,
    },
    /// This process has so many names already.
    TooMany,
    /// Nobody has the name now.
    NotFound,
    /// An environment variable is wrong.
    Configuration(String),
    /// The run directory cannot be used.
    RunDirectory(String),
    /// Another user has put something where the names of this user belong.
    Squatted,
    /// The user has no inotify instance left (fs.inotify.max_user_instances), or the process no descriptor.
    NoDescriptors,
    Os(io::Error),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::BadName => write!(
                f,
                "a service has 1 to {LONGEST} letters, digits, -, _ and ., and begins with a letter or a digit"
            ),
            NameError::NoPort => f.write_str("the address has no port"),
            NameError::Taken { pid } => write!(f, "process {pid} has the name"),
            NameError::TooMany => write!(f, "the process has {MOST_NAMES} names already"),
            NameError::NotFound => f.write_str("nobody has the name"),
            NameError::Configuration(why) | NameError::RunDirectory(why) => f.write_str(why),
            NameError::Squatted => f.write_str(
                "another user's file is where the names of this user belong: let root remove it (ulsock doctor)",
            ),
            NameError::NoDescriptors => f.write_str(
                "no descriptors, or no inotify instances: raise fs.inotify.max_user_instances",
            ),
            NameError::Os(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NameError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NameError::Os(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Errno> for NameError {
    fn from(errno: Errno) -> NameError {
        match errno {
            Errno::PERM => NameError::Squatted,
            Errno::MFILE | Errno::NFILE => NameError::NoDescriptors,
            other => NameError::Os(other.into()),
        }
    }
}

impl From<NotPublished> for NameError {
    fn from(why: NotPublished) -> NameError {
        match why {
            NotPublished::Taken { pid } => NameError::Taken { pid },
            NotPublished::Os(errno) => errno.into(),
        }
    }
}

impl From<NameError> for io::Error {
    fn from(error: NameError) -> io::Error {
        let kind = match &error {
            NameError::BadName | NameError::NoPort => io::ErrorKind::InvalidInput,
            NameError::Taken { .. } => io::ErrorKind::AddrInUse,
            NameError::NotFound => io::ErrorKind::NotFound,
            NameError::Os(error) => error.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
