//! Why a call has no reply.

use std::fmt;

use crate::message::MessageError;

/// Bytes of a text that go along with a failure.
pub const MOST_TEXT: usize = 1024;

/// What a handler says if it cannot answer: a number of the program's own, and a text, of which at most 1024 bytes are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u32,
    pub text: String,
}

impl Failure {
    pub fn new(code: u32, text: impl Into<String>) -> Failure {
        let text = text.into();
        Failure { code, text }
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Failure {
        Failure::new(0, text)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::new(0, text)
    }
}

/// Of a handler that itself could not receive, or called somebody.
impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Failure {
        match error {
            RequestError::Failed(failure) => failure,
            error => Failure::new(0, error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}

#[derive(Clone, Debug)]
pub enum RequestError {
    /// The other end has closed the connection, or has died. The request may have been handled.
    PeerGone,
    /// The time that the call had is over. The request may have been handled.
    DeadlineExceeded,
    /// The other end has no such service.
    NoService(u16),
    /// The handler says so.
    Failed(Failure),
    /// The handler could not be given what was sent: it was no value of its type, or too long.
    BadRequest(String),
    /// The handler has ended, or dropped its writer, before the end of the reply.
    NoReply,
    /// What came is no value of the type that was asked for.
    BadReply(String),
    /// The value cannot be encoded.
    Encode(String),
    /// The caller has dropped the call.
    Cancelled,
    /// There are as many calls as there can be.
    TooMany,
    /// The messages beneath have failed.
    Message(MessageError),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::PeerGone => f.write_str("the peer is gone"),
            RequestError::DeadlineExceeded => f.write_str("the deadline is exceeded"),
            RequestError::NoService(service) => write!(f, "the peer has no service {service}"),
            RequestError::Failed(failure) => write!(f, "the handler has failed: {failure}"),
            RequestError::BadRequest(text) => write!(f, "the request was refused: {text}"),
            RequestError::NoReply => f.write_str("the handler has not replied to the end"),
            RequestError::BadReply(text) => write!(f, "the reply cannot be used: {text}"),
            RequestError::Encode(text) => write!(f, "the value cannot be encoded: {text}"),
            RequestError::Cancelled => f.write_str("the call was dropped"),
            RequestError::TooMany => f.write_str("too many calls are under way"),
            RequestError::Message(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RequestError {}

impl From<MessageError> for RequestError {
    fn from(error: MessageError) -> RequestError {
        match error {
            MessageError::PeerGone => RequestError::PeerGone,
            error => RequestError::Message(error),
        }
    }
}
