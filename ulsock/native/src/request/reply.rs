//! A request, at the end that handles it: its body comes in, its reply goes out.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use super::error::RequestError;
use super::fate::{Fate, Side};
use super::header::{self, REPLY, Status};
use crate::message::{Incoming, MessageError, Outgoing, Peer};

/// A request that is being handled.
pub struct Job {
    pub id: u64,
    pub peer: Peer,
    pub fate: Rc<Fate>,
    pub until: Option<Instant>,
    /// The reply is out.
    pub replied: Cell<bool>,
}

impl Job {
    async fn begin(&self, status: Status) -> Result<Outgoing, MessageError> {
        let mut out = self.peer.begin(REPLY)?;
        out.piece(&header::encode_reply(self.id, status)).await?;
        Ok(out)
    }

    /// A reply in one piece.
    pub async fn reply(&self, bytes: &[u8]) -> Result<(), RequestError> {
        self.begin(Status::Done).await?.end_with(bytes).await?;
        self.replied.set(true);
        Ok(())
    }

    /// Says why there is no reply.
    pub async fn refuse(&self, error: &RequestError) -> Result<(), MessageError> {
        let (status, detail) = header::encode_error(error);
        self.begin(status).await?.end_with(&detail).await
    }
}

/// Where a handler reads the request. Dropped before its end, it takes nothing more of it; the rest is skipped when it comes.
pub struct RequestReader {
    pub(super) body: Incoming,
    pub(super) job: Rc<Job>,
}

impl RequestReader {
    /// Who calls.
    pub fn peer(&self) -> Peer {
        self.job.peer.clone()
    }

    /// When the caller stops waiting: the handler is dropped then.
    pub fn deadline(&self) -> Option<Instant> {
        self.job.until
    }

    /// Some bytes, as soon as there are any; none at the end.
    pub async fn read(&mut self, room: &mut [u8]) -> Result<usize, RequestError> {
        Ok(self.body.read(room).await?)
    }

    /// Fills the room.
    pub async fn read_exact(&mut self, room: &mut [u8]) -> Result<(), RequestError> {
        Ok(self.body.read_exact(room).await?)
    }

    /// The rest, if it is not longer than `most`.
    pub async fn read_rest(&mut self, most: usize) -> Result<Vec<u8>, RequestError> {
        Ok(self.body.read_rest(most).await?)
    }
}

/// Where a handler writes its reply: pieces, then [`end`](ReplyWriter::end).
///
/// The caller hears if it is dropped before its end. It belongs to its handler: one that outlives it has no caller.
pub struct ReplyWriter {
    out: Outgoing,
    job: Rc<Job>,
}

impl ReplyWriter {
    pub(super) async fn new(job: Rc<Job>) -> Result<ReplyWriter, MessageError> {
        let out = job.begin(Status::Done).await?;
        Ok(ReplyWriter { out, job })
    }

    /// Adds these bytes. Waits while the caller has not taken enough of what was sent before.
    pub async fn piece(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        let piece = self.out.piece(bytes);
        self.job.fate.guard(Side::Write, piece).await
    }

    /// Sends the pieces so far: small ones would else wait for more of them.
    pub async fn push(&mut self) -> Result<(), RequestError> {
        let push = self.out.push();
        self.job.fate.guard(Side::Write, push).await
    }

    /// The reply is whole.
    pub async fn end(self) -> Result<(), RequestError> {
        self.end_with(&[]).await
    }

    /// Adds these bytes and ends the reply.
    pub async fn end_with(self, bytes: &[u8]) -> Result<(), RequestError> {
        let end = self.out.end_with(bytes);
        self.job.fate.guard(Side::Write, end).await?;
        self.job.replied.set(true);
        Ok(())
    }
}
