//! A call, at the end that has made it: its request goes out, its reply comes in, and whoever drops it cancels it.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use super::error::RequestError;
use super::fate::{Fate, Side};
use super::header::{self, MOST_DETAIL, REPLY_HEADER, Status};
use super::state::State;
use super::timer::Deadline;
use crate::message::{Incoming, MessageError, Nonsense, Outgoing, Peer};

pub struct Call {
    pub id: u64,
    pub service: u16,
    pub peer: Peer,
    pub fate: Rc<Fate>,
    /// The reply is wanted in one piece, not longer than this.
    pub whole: Option<usize>,
    pub reply: RefCell<Reply>,
}

pub enum Reply {
    Awaited,
    Begun(Incoming),
    Whole(Vec<u8>),
    /// Somebody reads it.
    Taken,
}

impl Call {
    /// What has come of the reply can still be read.
    pub fn peer_is_gone(&self) {
        if matches!(*self.reply.borrow(), Reply::Awaited) {
            let why = self.peer.check().err();
            self.fate.end(why.unwrap_or(MessageError::PeerGone).into());
        }
    }

    fn set_reply(&self, reply: Reply) {
        let before = self.reply.replace(reply);
        drop(before);
        self.fate.wake();
    }

    /// The other end has dropped its reply: it says why, unless it is gone.
    fn was_aborted(&self) {
        self.set_reply(Reply::Awaited);
        if self.peer.is_gone() {
            self.peer_is_gone();
        }
    }

    async fn take_reply(&self, mut body: Incoming) -> Result<(), Nonsense> {
        if !matches!(*self.reply.borrow(), Reply::Awaited) {
            return Err(Nonsense::Request);
        }
        let Some(most) = self.whole else {
            self.set_reply(Reply::Begun(body));
            return Ok(());
        };
        self.set_reply(Reply::Taken);
        let read = body.read_rest(most);
        match self.fate.guard(Side::Receive, read).await {
            Ok(bytes) => self.set_reply(Reply::Whole(bytes)),
            Err(RequestError::Message(MessageError::Aborted)) => self.was_aborted(),
            Err(RequestError::Message(MessageError::TooLong { most })) => {
                let text = format!("it is longer than {most} bytes");
                self.fate.end(RequestError::BadReply(text));
            }
            Err(error) => self.fate.end(error),
        }
        Ok(())
    }
}

/// A reply has come.
pub async fn receive_reply(state: Rc<State>, mut message: Incoming) -> Result<(), MessageError> {
    let peer = message.peer();
    match receive(&state, &peer, &mut message).await {
        Ok(Some(call)) => {
            if let Err(nonsense) = call.take_reply(message).await {
                peer.fail(nonsense.into());
            }
        }
        Ok(None) => {}
        Err(MessageError::TooShort { .. } | MessageError::TooLong { .. }) => {
            peer.fail(Nonsense::Request.into());
        }
        Err(MessageError::Nonsense(nonsense)) => peer.fail(nonsense.into()),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Whose reply this is, if its body follows. One that nobody waits for is skipped: its call was dropped meanwhile.
async fn receive(
    state: &State,
    peer: &Peer,
    message: &mut Incoming,
) -> Result<Option<Rc<Call>>, MessageError> {
    let mut bytes = [0; REPLY_HEADER];
    message.read_exact(&mut bytes).await?;
    let (id, status) = header::decode_reply(bytes)?;
    let Some(call) = state.call(id, peer) else {
        return Ok(None);
    };
    if status == Status::Done {
        return Ok(Some(call));
    }
    let detail = message.read_rest(MOST_DETAIL).await?;
    let error = header::decode_error(status, call.service, &detail)?;
    call.fate.end(error);
    Ok(None)
}

/// A call that is under way. Dropped before its reply has come whole, it is cancelled.
pub struct Open {
    pub state: Rc<State>,
    pub call: Rc<Call>,
    pub deadline: Option<Deadline>,
    pub done: Cell<bool>,
}

impl Open {
    /// Waits for a reply.
    async fn reply(&self) -> Result<Reply, RequestError> {
        poll_fn(|task| {
            let fate = &self.call.fate;
            fate.check()?;
            let mut reply = self.call.reply.borrow_mut();
            match &*reply {
                Reply::Begun(_) | Reply::Whole(_) => {
                    Poll::Ready(Ok(std::mem::replace(&mut *reply, Reply::Taken)))
                }
                Reply::Awaited | Reply::Taken => {
                    fate.wait(Side::Read, task);
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub async fn whole(self) -> Result<Vec<u8>, RequestError> {
        loop {
            if let Reply::Whole(bytes) = self.reply().await? {
                self.done.set(true);
                return Ok(bytes);
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let call = &self.call;
        self.state.remove_call(call.id);
        if self.done.get() {
            return;
        }
        call.set_reply(Reply::Taken);
        call.fate.end(RequestError::Cancelled);
        if !call.peer.is_gone() {
            self.state.cancel(call.peer.clone(), call.id);
        }
    }
}

/// Where a caller writes its request: pieces, then [`end`](RequestWriter::end).
///
/// Whoever drops it before its end aborts the request: the handler hears of that when it reads.
pub struct RequestWriter {
    pub(super) out: Outgoing,
    pub(super) call: Rc<Call>,
}

impl RequestWriter {
    /// Adds these bytes. Waits while the other end has not taken enough of what was sent before.
    pub async fn piece(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        let piece = self.out.piece(bytes);
        self.call.fate.guard(Side::Write, piece).await
    }

    /// Sends the pieces so far: small ones would else wait for more of them.
    pub async fn push(&mut self) -> Result<(), RequestError> {
        let push = self.out.push();
        self.call.fate.guard(Side::Write, push).await
    }

    /// The request is whole.
    pub async fn end(self) -> Result<(), RequestError> {
        let end = self.out.end();
        self.call.fate.guard(Side::Write, end).await
    }

    /// Adds these bytes and ends the request.
    pub async fn end_with(self, bytes: &[u8]) -> Result<(), RequestError> {
        let end = self.out.end_with(bytes);
        self.call.fate.guard(Side::Write, end).await
    }
}

/// Where a caller reads the reply. Dropped before its end, it cancels the call.
pub struct ReplyReader {
    open: Open,
    body: Option<Incoming>,
}

impl ReplyReader {
    pub(super) fn new(open: Open) -> ReplyReader {
        ReplyReader { open, body: None }
    }

    /// Some bytes, as soon as there are any; none at the end.
    pub async fn read(&mut self, room: &mut [u8]) -> Result<usize, RequestError> {
        if room.is_empty() || self.open.done.get() {
            return Ok(0);
        }
        while self.body.is_none() {
            if let Reply::Begun(body) = self.open.reply().await? {
                self.body = Some(body);
            }
        }
        let Some(body) = &mut self.body else {
            return Ok(0);
        };
        let call = &self.open.call;
        match call.fate.guard(Side::Read, body.read(room)).await {
            Ok(0) => {
                self.open.done.set(true);
                Ok(0)
            }
            Err(RequestError::Message(MessageError::Aborted)) => {
                self.body = None;
                call.was_aborted();
                let why = pending::<Result<usize, RequestError>>();
                call.fate.guard(Side::Read, why).await
            }
            read => read,
        }
    }

    /// Fills the room.
    pub async fn read_exact(&mut self, mut room: &mut [u8]) -> Result<(), RequestError> {
        while !room.is_empty() {
            match self.read(room).await? {
                0 => {
                    let missing = room.len();
                    return Err(MessageError::TooShort { missing }.into());
                }
                n => room = &mut room[n..],
            }
        }
        Ok(())
    }
}
