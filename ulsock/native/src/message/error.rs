//! Why a message was not sent, or not received whole.

use std::fmt;
use std::io;
use std::rc::Rc;

/// What no endpoint of ulsock says: the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// The other end speaks something else.
    Greeting,
    /// It speaks a version that is not known here.
    Version(u16),
    /// A frame that makes no sense.
    Frame,
    /// More than it had credit for.
    Credit,
    /// A part of a message that has not begun, or has begun twice.
    Order,
    /// A request, or a reply, that makes no sense.
    Request,
    /// A write into memory that is not its to write.
    Memory,
    /// What no member of a group says.
    Group,
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nonsense::Greeting => f.write_str("it is no endpoint of ulsock"),
            Nonsense::Version(version) => write!(f, "it speaks version {version}"),
            Nonsense::Frame => f.write_str("a frame that makes no sense"),
            Nonsense::Credit => f.write_str("more bytes than it had credit for"),
            Nonsense::Request => f.write_str("a request or a reply that makes no sense"),
            Nonsense::Memory => f.write_str("a write into memory that makes no sense"),
            Nonsense::Group => f.write_str("no member of a group says so"),
            Nonsense::Order => f.write_str("a part of a message that is not under way"),
        }
    }
}

#[derive(Clone, Debug)]
pub enum MessageError {
    /// The other end has closed the connection, or has died.
    PeerGone,
    /// The connection has failed.
    Connection(Rc<io::Error>),
    /// The other end has said what no endpoint says.
    Nonsense(Nonsense),
    /// The other end has no handler of this number. Told once; what is sent later may find one.
    NoHandler(u16),
    /// The sender has dropped the message before its end.
    Aborted,
    /// Fewer bytes have come than were asked for.
    TooShort { missing: usize },
    /// More bytes have come than were to be taken.
    TooLong { most: usize },
    /// [`extract`](super::Endpoint::extract) was called by a handler, or twice at a time.
    Extracting,
    /// There are as many messages to this peer under way as there can be.
    TooMany,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::PeerGone => f.write_str("the peer is gone"),
            MessageError::Connection(error) => write!(f, "the connection has failed: {error}"),
            MessageError::Nonsense(nonsense) => write!(f, "the peer talks nonsense: {nonsense}"),
            MessageError::NoHandler(number) => write!(f, "the peer has no handler {number}"),
            MessageError::Aborted => f.write_str("the sender has dropped the message"),
            MessageError::TooShort { missing } => {
                write!(f, "the message ends {missing} bytes too early")
            }
            MessageError::TooLong { most } => {
                write!(f, "the message is longer than {most} bytes")
            }
            MessageError::Extracting => f.write_str("messages are being extracted already"),
            MessageError::TooMany => f.write_str("too many messages to this peer are under way"),
        }
    }
}

impl std::error::Error for MessageError {}

impl From<io::Error> for MessageError {
    fn from(error: io::Error) -> MessageError {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => MessageError::PeerGone,
            _ => MessageError::Connection(Rc::new(error)),
        }
    }
}

impl From<Nonsense> for MessageError {
    fn from(nonsense: Nonsense) -> MessageError {
        MessageError::Nonsense(nonsense)
    }
}
