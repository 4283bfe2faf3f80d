//! The other end, as one calls it.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::call::{Call, Open, Reply, ReplyReader, RequestWriter};
use super::codec::{Decode, Encode};
use super::error::RequestError;
use super::fate::{Fate, Side};
use super::header::{CALL, CallHeader};
use super::state::State;
use crate::message::{MessageError, Outgoing, Peer};

/// A peer whose services can be called. Copies mean the same.
///
/// Replies come while somebody [serves](crate::message::Endpoint::serve) the endpoint, or within
/// [`Requests::while_served`](super::Requests::while_served).
#[derive(Clone)]
pub struct Caller {
    state: Rc<State>,
    peer: Peer,
    within: Option<Duration>,
}

impl Caller {
    pub(super) fn new(state: Rc<State>, peer: Peer) -> Caller {
        Caller {
            state,
            peer,
            within: None,
        }
    }

    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The same, but each of its calls has so much time, from its beginning to the end of its reply.
    pub fn within(&self, time: Duration) -> Caller {
        Caller {
            within: Some(time),
            ..self.clone()
        }
    }

    /// Sends these bytes, and waits for the bytes of the reply. Dropped before that, the call is cancelled.
    pub async fn call(&self, service: u16, request: &[u8]) -> Result<Vec<u8>, RequestError> {
        let (out, open) = self.begin(service, Some(self.state.limits.body)).await?;
        let send = out.end_with(request);
        let fate = open.call.fate.clone();
        fate.guard(Side::Write, send).await?;
        open.whole().await
    }

    /// The same with values of the program's own types.
    pub async fn ask<Q, R>(&self, service: u16, request: &Q) -> Result<R, RequestError>
    where
        Q: Encode + ?Sized,
        R: Decode,
    {
        let text = |error: &dyn Display| error.to_string();
        let bytes = request
            .bytes()
            .map_err(|error| RequestError::Encode(text(&error)))?;
        let reply = self.call(service, &bytes).await?;
        R::decode(reply).map_err(|error| RequestError::BadReply(text(&error)))
    }

    /// Begins a call whose request and reply are streams. Its handler is started at once.
    pub async fn open(&self, service: u16) -> Result<(RequestWriter, ReplyReader), RequestError> {
        let (out, open) = self.begin(service, None).await?;
        let call = open.call.clone();
        let mut writer = RequestWriter { out, call };
        writer.push().await?;
        Ok((writer, ReplyReader::new(open)))
    }

    /// A message that has its header.
    async fn begin(
        &self,
        service: u16,
        whole: Option<usize>,
    ) -> Result<(Outgoing, Open), RequestError> {
        let mut out = self.peer.begin(CALL).map_err(|error| match error {
            // An endpoint without requests has no services.
            MessageError::NoHandler(_) => RequestError::NoService(service),
            error => error.into(),
        })?;
        let call = self.state.add_call(|id| Call {
            id,
            service,
            peer: self.peer.clone(),
            fate: Rc::new(Fate::default()),
            whole,
            reply: RefCell::new(Reply::Awaited),
        })?;
        let mut open = Open {
            state: self.state.clone(),
            call,
            deadline: None,
            done: Cell::new(false),
        };
        let at = self
            .within
            .and_then(|time| Instant::now().checked_add(time));
        if let Some(at) = at {
            let deadline = self.state.deadline(at, &open.call.fate);
            open.deadline = Some(deadline.map_err(MessageError::from)?);
        }
        let header = CallHeader {
            id: open.call.id,
            service,
            within: self.within,
        };
        out.piece(&header.encode()).await?;
        Ok((out, open))
    }
}
