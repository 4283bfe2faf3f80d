//! What can go wrong with remote memory.

use std::fmt;
use std::io;

use rustix::io::Errno;
use shm::segment::SegmentError;

use crate::message::MessageError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// The bytes do not lie in the region, or a range is empty, or a word is not aligned.
    OutOfRange,
    /// A region has at least one byte, and no more than can be mapped.
    BadSize,
    /// These bytes are no key of a region.
    BadKey,
    /// The exporter has no such region, or its secret is another one.
    WrongKey,
    /// The exporter has dropped the region.
    Revoked,
    /// The exporter has ended, or there is no connection to it any more.
    PeerGone,
    /// At the address of the key there is no exporter.
    NoExporter,
    /// The other end has said what makes no sense.
    Nonsense,
    /// This was made by the parent of this process.
    Forked,
    /// The region has as many wires as it can have.
    TooManyWires,
    /// The host, or the control group of this process, has not so much memory left; or a file may not have so much
    /// (`ulimit -f`).
    NoMemory,
    /// The exporter has not answered within the time that was given.
    TimedOut,
    Os(io::ErrorKind),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryError::OutOfRange => "not within the region",
            MemoryError::BadSize => "a region cannot have this size",
            MemoryError::BadKey => "these bytes are no key of a region",
            MemoryError::WrongKey => "the exporter has no region with this key",
            MemoryError::Revoked => "the exporter has dropped the region",
            MemoryError::PeerGone => "the exporter is gone",
            MemoryError::NoExporter => "there is no exporter at this address",
            MemoryError::Nonsense => "the other end talks nonsense",
            MemoryError::Forked => "it belongs to the parent of this process",
            MemoryError::TooManyWires => "the region has too many wires",
            MemoryError::NoMemory => {
                "there is not so much memory left: on this host, in the control group, or for a file (ulimit -f)"
            }
            MemoryError::TimedOut => "the exporter does not answer within the time",
            MemoryError::Os(kind) => return kind.fmt(f),
        })
    }
}

impl std::error::Error for MemoryError {}

impl From<io::Error> for MemoryError {
    fn from(error: io::Error) -> MemoryError {
        MemoryError::Os(error.kind())
    }
}

impl From<Errno> for MemoryError {
    fn from(errno: Errno) -> MemoryError {
        match errno {
            Errno::NOMEM | Errno::NOSPC | Errno::FAULT => MemoryError::NoMemory,
            errno => io::Error::from(errno).into(),
        }
    }
}

impl From<SegmentError> for MemoryError {
    fn from(error: SegmentError) -> MemoryError {
        match error {
            SegmentError::Os(errno) => errno.into(),
            SegmentError::FileLimit => MemoryError::NoMemory,
            _ => MemoryError::Nonsense,
        }
    }
}

impl From<MessageError> for MemoryError {
    fn from(error: MessageError) -> MemoryError {
        match error {
            MessageError::Connection(error) => MemoryError::Os(error.kind()),
            MessageError::Nonsense(_) => MemoryError::Nonsense,
            MessageError::NoHandler(_) => MemoryError::NoExporter,
            _ => MemoryError::PeerGone,
        }
    }
}

impl From<MemoryError> for io::Error {
    fn from(error: MemoryError) -> io::Error {
        let kind = match error {
            MemoryError::OutOfRange | MemoryError::BadSize | MemoryError::BadKey => {
                io::ErrorKind::InvalidInput
            }
            MemoryError::WrongKey => io::ErrorKind::PermissionDenied,
            MemoryError::Revoked | MemoryError::PeerGone => io::ErrorKind::BrokenPipe,
            MemoryError::NoExporter => io::ErrorKind::NotFound,
            MemoryError::Nonsense => io::ErrorKind::InvalidData,
            MemoryError::Forked => io::ErrorKind::Unsupported,
            MemoryError::TooManyWires | MemoryError::NoMemory => io::ErrorKind::OutOfMemory,
            MemoryError::TimedOut => io::ErrorKind::TimedOut,
            MemoryError::Os(kind) => kind,
        };
        io::Error::new(kind, error)
    }
}
