//! Why something of a group could not be done.

use std::fmt;
use std::io;

use crate::names::NameError;

#[derive(Debug)]
pub enum GroupError {
    /// The group's name, or a member's, could not be registered or watched.
    Name(NameError),
    /// Longer than the group's messages can be: a quarter of the sender's ring.
    TooLong {
        most: usize,
    },
    /// The next message is longer than the room for it. It is still the next.
    NoRoom {
        needed: usize,
    },
    /// The size of a ring is a power of two from 4 KiB to 256 MiB.
    BadRing,
    /// The group was joined by a process of which this one is a child.
    Forked,
    /// What the group does by itself has ended: there was no memory, or no descriptor, for it.
    Ended,
    Os(io::Error),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Name(error) => error.fmt(f),
            GroupError::TooLong { most } => {
                write!(f, "a message of this member has at most {most} bytes")
            }
            GroupError::NoRoom { needed } => write!(f, "the next message has {needed} bytes"),
            GroupError::BadRing => {
                f.write_str("a ring has a power of two of bytes, 4 KiB to 256 MiB")
            }
            GroupError::Forked => f.write_str("the group was joined by the parent process"),
            GroupError::Ended => f.write_str("the group has ended for this member"),
            GroupError::Os(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GroupError::Name(error) => Some(error),
            GroupError::Os(error) => Some(error),
            _ => None,
        }
    }
}

impl From<NameError> for GroupError {
    fn from(error: NameError) -> GroupError {
        GroupError::Name(error)
    }
}

impl From<io::Error> for GroupError {
    fn from(error: io::Error) -> GroupError {
        GroupError::Os(error)
    }
}

impl From<rustix::io::Errno> for GroupError {
    fn from(errno: rustix::io::Errno) -> GroupError {
        GroupError::Os(errno.into())
    }
}

impl From<GroupError> for io::Error {
    fn from(error: GroupError) -> io::Error {
        match error {
            GroupError::Os(error) => error,
            GroupError::Name(error) => error.into(),
            GroupError::TooLong { .. } | GroupError::BadRing => {
                io::Error::new(io::ErrorKind::InvalidInput, error)
            }
            other => io::Error::other(other),
        }
    }
}
