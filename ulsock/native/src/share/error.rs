//! Why descriptors could not be fetched.

use std::fmt;

use rustix::io::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// Nobody of this host, as far as this process sees it, has given this ticket, or he is gone.
    NotHere,
    /// The giver is another user.
    Stranger,
    /// The giver does not know the ticket, or no longer.
    Refused,
    /// The giver does not answer.
    TimedOut,
    /// The answer makes no sense, or has another number of descriptors.
    Nonsense,
    Os(Errno),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::NotHere => f.write_str("the giver is not on this host, or gone"),
            FetchError::Stranger => f.write_str("the giver is another user"),
            FetchError::Refused => f.write_str("the giver does not know the ticket"),
            FetchError::TimedOut => f.write_str("the giver does not answer"),
            FetchError::Nonsense => f.write_str("the giver's answer makes no sense"),
            FetchError::Os(errno) => errno.fmt(f),
        }
    }
}

impl std::error::Error for FetchError {}

impl From<Errno> for FetchError {
    fn from(errno: Errno) -> FetchError {
        match errno {
            Errno::CONNREFUSED | Errno::NOENT => FetchError::NotHere,
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => FetchError::Refused,
            errno => FetchError::Os(errno),
        }
    }
}
