//! What goes out in pieces: a message, a request or a reply.

use std::ffi::{c_char, c_void};
use std::rc::Rc;

use native::message::Outgoing;
use native::request::{Failure, ReplyWriter, RequestWriter, Requests};

use crate::edge::{self, object};
use crate::fiber::{can_wait, wait};
use crate::held::{Handle, Local, free};
use crate::status::{Error, Result, Status, told};

/// A message, a request or a reply that is being sent. Others can be under way to the same peer meanwhile.
pub struct Writer {
    pieces: Local<Pieces>,
    is_lent: bool,
}

pub struct Pieces {
    /// Away when it has ended.
    output: Option<Output>,
    failure: Option<Failure>,
}

pub enum Output {
    Message(Outgoing),
    /// Its endpoint is served while this waits.
    Request(RequestWriter, Rc<Requests>),
    Reply(ReplyWriter),
}

impl Handle for Writer {
    type Object = Pieces;

    fn local(&self) -> &Local<Pieces> {
        &self.pieces
    }

    fn is_lent(&self) -> bool {
        self.is_lent
    }
}

impl Writer {
    pub fn new(output: Output) -> Writer {
        let pieces = Pieces {
            output: Some(output),
            failure: None,
        };
        Writer {
            pieces: Local::new(pieces),
            is_lent: false,
        }
    }

    /// For a handler, which must not free it.
    pub fn lent(output: Output) -> Writer {
        Writer {
            is_lent: true,
            ..Writer::new(output)
        }
    }

    /// What its handler has said of itself.
    pub fn take_failure(&self) -> Option<Failure> {
        self.pieces
            .with(|pieces| Ok(pieces.failure.take()))
            .ok()
            .flatten()
    }
}

fn over() -> Error {
    Error::bad_argument("it has ended already")
}

impl Output {
    fn piece(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Output::Message(out) => wait(out.piece(bytes))??,
            Output::Request(out, requests) => wait(requests.while_served(out.piece(bytes)))??,
            Output::Reply(out) => wait(out.piece(bytes))??,
        }
        Ok(())
    }

    fn push(&mut self) -> Result<()> {
        match self {
            Output::Message(out) => wait(out.push())??,
            Output::Request(out, requests) => wait(requests.while_served(out.push()))??,
            Output::Reply(out) => wait(out.push())??,
        }
        Ok(())
    }

    fn end_with(self, bytes: &[u8]) -> Result<()> {
        match self {
            Output::Message(out) => wait(out.end_with(bytes))??,
            Output::Request(out, requests) => wait(requests.while_served(out.end_with(bytes)))??,
            Output::Reply(out) => wait(out.end_with(bytes))??,
        }
        Ok(())
    }
}

/// Adds these bytes. Waits while the peer has not taken enough of what was sent before.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_writer_piece(
    writer: Option<&Writer>,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        let piece = |pieces: &mut Pieces| pieces.output.as_mut().ok_or_else(over)?.piece(bytes);
        object(writer)?.pieces.with(piece)
    })
}

/// Sends the pieces so far: small ones would else wait for more of them.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_writer_push(writer: Option<&Writer>) -> Status {
    told(|| {
        let push = |pieces: &mut Pieces| pieces.output.as_mut().ok_or_else(over)?.push();
        object(writer)?.pieces.with(push)
    })
}

/// Adds these bytes, perhaps none, and ends it. It is still to be freed, unless it was lent to a handler.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_writer_end(
    writer: Option<&Writer>,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        let end = |pieces: &mut Pieces| {
            can_wait()?;
            pieces.output.take().ok_or_else(over)?.end_with(bytes)
        };
        object(writer)?.pieces.with(end)
    })
}

/// Of a reply: there is none, because the handler has failed. The caller gets ULSOCK_FAILED with this code and at most 1024
/// bytes of this text, when the handler returns.
///
/// # Safety
/// `text` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_writer_fail(
    writer: Option<&Writer>,
    code: u32,
    text: *const c_char,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let text = unsafe { edge::text(text)? };
        object(writer)?.pieces.with(|pieces| {
            if !matches!(pieces.output, Some(Output::Reply(_))) {
                return Err(Error::bad_argument(
                    "only a reply that has not ended can fail",
                ));
            }
            pieces.failure = Some(Failure::new(code, text));
            Ok(())
        })
    })
}

/// One that was not ended is aborted: its reader hears of that, if it was begun. This does nothing with what is lent to a
/// handler, which ends when the handler returns.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_writer_free(writer: Option<Box<Writer>>) {
    free(writer);
}
