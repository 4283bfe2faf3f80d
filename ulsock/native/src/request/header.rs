//! The first bytes of a call, of a reply and of a cancellation. Whatever comes from the other end is checked here.

use std::time::Duration;

use super::error::{Failure, MOST_TEXT, RequestError};
use crate::message::{Nonsense, RESERVED};

/// Handlers of these numbers are this module's.
pub const CALL: u16 = RESERVED;
pub const REPLY: u16 = RESERVED + 1;
pub const CANCEL: u16 = RESERVED + 2;

pub const CALL_HEADER: usize = 20;
pub const REPLY_HEADER: usize = 12;
pub const CANCEL_HEADER: usize = 8;

/// Failures say at most so much behind the header.
pub const MOST_DETAIL: usize = 4 + MOST_TEXT;

/// No deadline.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader {
    /// Chosen by the caller; the other end only repeats it.
    pub id: u64,
    pub service: u16,
    /// What is left until the deadline: clocks of two hosts need not agree.
    pub within: Option<Duration>,
}

impl CallHeader {
    pub fn encode(self) -> [u8; CALL_HEADER] {
        let micros = self.within.map_or(NEVER, |within| {
            u64::try_from(within.as_micros()).unwrap_or(NEVER)
        });
        let mut bytes = [0; CALL_HEADER];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..16].copy_from_slice(&micros.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.service.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: [u8; CALL_HEADER]) -> Result<CallHeader, Nonsense> {
        if bytes[18..] != [0; 2] {
            return Err(Nonsense::Request);
        }
        let micros = word(&bytes[8..]);
        Ok(CallHeader {
            id: word(&bytes),
            service: u16::from_le_bytes([bytes[16], bytes[17]]),
            within: (micros != NEVER).then(|| Duration::from_micros(micros)),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The reply follows.
    Done,
    NoService,
    /// Is followed by a number and a text.
    Failed,
    DeadlineExceeded,
    NoReply,
    /// Is followed by a number, which is 0, and a text.
    BadRequest,
}

const STATUSES: [Status; 6] = [
    Status::Done,
    Status::NoService,
    Status::Failed,
    Status::DeadlineExceeded,
    Status::NoReply,
    Status::BadRequest,
];

pub fn encode_reply(id: u64, status: Status) -> [u8; REPLY_HEADER] {
    let mut bytes = [0; REPLY_HEADER];
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes[8] = status as u8;
    bytes
}

pub fn decode_reply(bytes: [u8; REPLY_HEADER]) -> Result<(u64, Status), Nonsense> {
    let status = STATUSES.get(usize::from(bytes[8]));
    match status {
        Some(status) if bytes[9..] == [0; 3] => Ok((word(&bytes), *status)),
        _ => Err(Nonsense::Request),
    }
}

/// What the caller hears, without the number of the service, which only it knows.
pub fn encode_error(error: &RequestError) -> (Status, Vec<u8>) {
    match error {
        RequestError::NoService(_) => (Status::NoService, Vec::new()),
        RequestError::DeadlineExceeded => (Status::DeadlineExceeded, Vec::new()),
        RequestError::NoReply => (Status::NoReply, Vec::new()),
        RequestError::BadRequest(text) => (Status::BadRequest, detail(0, text)),
        RequestError::Failed(failure) => (Status::Failed, detail(failure.code, &failure.text)),
        other => (Status::Failed, detail(0, &other.to_string())),
    }
}

fn detail(code: u32, text: &str) -> Vec<u8> {
    let end = text.floor_char_boundary(MOST_TEXT);
    let mut bytes = code.to_le_bytes().to_vec();
    bytes.extend_from_slice(&text.as_bytes()[..end]);
    bytes
}

pub fn decode_error(status: Status, service: u16, bytes: &[u8]) -> Result<RequestError, Nonsense> {
    let error = match status {
        Status::NoService => RequestError::NoService(service),
        Status::DeadlineExceeded => RequestError::DeadlineExceeded,
        Status::NoReply => RequestError::NoReply,
        Status::Done => return Err(Nonsense::Request),
        Status::Failed | Status::BadRequest => {
            let (code, text) = bytes.split_first_chunk().ok_or(Nonsense::Request)?;
            let text = String::from_utf8_lossy(text).into_owned();
            match status {
                Status::Failed => {
                    RequestError::Failed(Failure::new(u32::from_le_bytes(*code), text))
                }
                _ => RequestError::BadRequest(text),
            }
        }
    };
    Ok(error)
}

fn word(bytes: &[u8]) -> u64 {
    let first = bytes.first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        for within in [None, Some(Duration::ZERO), Some(Duration::from_micros(77))] {
            let header = CallHeader {
                id: u64::MAX - 1,
                service: 0xfffe,
                within,
            };
            assert_eq!(CallHeader::decode(header.encode()), Ok(header));
        }
        for status in STATUSES {
            assert_eq!(decode_reply(encode_reply(9, status)), Ok((9, status)));
        }
    }

    #[test]
    fn what_is_not_used_is_zero_and_unknown_statuses_are_refused() {
        for at in 18..CALL_HEADER {
            let mut bytes = [0; CALL_HEADER];
            bytes[at] = 1;
            assert_eq!(CallHeader::decode(bytes), Err(Nonsense::Request));
        }
        for at in 9..REPLY_HEADER {
            let mut bytes = [0; REPLY_HEADER];
            bytes[at] = 1;
            assert_eq!(decode_reply(bytes), Err(Nonsense::Request));
        }
        for status in 6..=255 {
            let mut bytes = [0; REPLY_HEADER];
            bytes[8] = status;
            assert_eq!(decode_reply(bytes), Err(Nonsense::Request));
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let failure = Failure::new(3, "é".repeat(MOST_TEXT) + "x");
        let (status, bytes) = encode_error(&RequestError::Failed(failure));
        assert!(bytes.len() <= MOST_DETAIL);
        match decode_error(status, 1, &bytes) {
            Ok(RequestError::Failed(failure)) => {
                assert_eq!(failure, Failure::new(3, "é".repeat(MOST_TEXT / 2)));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failure_without_a_number_is_nonsense() {
        for status in [Status::Failed, Status::BadRequest, Status::Done] {
            assert!(decode_error(status, 1, &[1, 2, 3]).is_err());
        }
    }
}
