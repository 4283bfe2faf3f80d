//! What a server does with a call: finds its service, waits for its turn, and runs the handler until it has replied, or until
//! nobody waits for it any more.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Instant;

use super::codec::{Decode, Encode};
use super::error::{Failure, RequestError};
use super::fate::{Fate, Side};
use super::header::{CALL_HEADER, CANCEL_HEADER, CallHeader};
use super::peers::Place;
use super::reply::{Job, ReplyWriter, RequestReader};
use super::state::State;
use crate::message::{Incoming, MessageError, Nonsense};

type Handling = Pin<Box<dyn Future<Output = Result<(), RequestError>>>>;

/// A service of any type.
pub trait Service {
    fn start(&self, job: Rc<Job>, body: Incoming, most: usize) -> Handling;
}

/// Takes a value and gives one.
pub struct Answer<M, Q, R> {
    answer: Rc<M>,
    types: PhantomData<fn(Q) -> R>,
}

impl<M, Q, R> Answer<M, Q, R> {
    pub fn new(answer: M) -> Answer<M, Q, R> {
        Answer {
            answer: Rc::new(answer),
            types: PhantomData,
        }
    }
}

impl<M, Q, R, F> Service for Answer<M, Q, R>
where
    M: Fn(Q) -> F + 'static,
    F: Future<Output = Result<R, Failure>>,
    Q: Decode + 'static,
    R: Encode + 'static,
{
    fn start(&self, job: Rc<Job>, mut body: Incoming, most: usize) -> Handling {
        let answer = self.answer.clone();
        Box::pin(async move {
            let bytes = body.read_rest(most).await.map_err(|error| match error {
                MessageError::TooLong { .. } => bad(&error),
                error => error.into(),
            })?;
            let request = Q::decode(bytes).map_err(|error| bad(&error))?;
            let reply = answer(request).await.map_err(RequestError::Failed)?;
            let bytes = reply
                .bytes()
                .map_err(|error| RequestError::Encode(error.to_string()))?;
            job.reply(&bytes).await
        })
    }
}

fn bad(error: &dyn Display) -> RequestError {
    RequestError::BadRequest(error.to_string())
}

/// Reads and writes as it likes.
pub struct Streams<M>(pub Rc<M>);

impl<M, F> Service for Streams<M>
where
    M: Fn(RequestReader, ReplyWriter) -> F + 'static,
    F: Future<Output = Result<(), Failure>>,
{
    fn start(&self, job: Rc<Job>, body: Incoming, _most: usize) -> Handling {
        let handle = self.0.clone();
        Box::pin(async move {
            let writer = ReplyWriter::new(job.clone()).await?;
            let reader = RequestReader { body, job };
            handle(reader, writer).await.map_err(RequestError::Failed)
        })
    }
}

/// A call has come.
pub async fn receive_call(state: Rc<State>, mut message: Incoming) -> Result<(), MessageError> {
    let mut bytes = [0; CALL_HEADER];
    let header = match message.read_exact(&mut bytes).await {
        Ok(()) => CallHeader::decode(bytes),
        Err(MessageError::TooShort { .. }) => Err(Nonsense::Request),
        Err(error) => return Err(error),
    };
    let peer = message.peer();
    // A peer that is gone is known no longer.
    peer.check()?;
    let fate = Rc::new(Fate::default());
    let entered = header.and_then(|header| {
        let place = state.callers.enter(&peer, header.id, &fate);
        Ok((header, place.ok_or(Nonsense::Request)?))
    });
    match entered {
        Ok((header, place)) => {
            let until = header
                .within
                .and_then(|within| Instant::now().checked_add(within));
            let job = Rc::new(Job {
                id: header.id,
                peer,
                fate,
                until,
                replied: false.into(),
            });
            handle(&state, header.service, job, place, message).await
        }
        Err(nonsense) => {
            peer.fail(nonsense.into());
            Ok(())
        }
    }
}

async fn handle(
    state: &State,
    service: u16,
    job: Rc<Job>,
    place: Place,
    message: Incoming,
) -> Result<(), MessageError> {
    let Some(service) = state.service(service) else {
        drop(message);
        return job.refuse(&RequestError::NoService(service)).await;
    };
    let _deadline = match job.until {
        Some(until) => Some(state.deadline(until, &job.fate)?),
        None => None,
    };
    let most = state.limits.body;
    let run = async {
        poll_fn(|task| place.poll_turn(task)).await;
        service.start(job.clone(), message, most).await
    };
    let done = job.fate.guard(Side::Read, run).await;
    let error = match done {
        _ if job.replied.get() => return Ok(()),
        // Nobody listens.
        Err(RequestError::Cancelled | RequestError::PeerGone) => return Ok(()),
        Err(error) => error,
        Ok(()) => RequestError::NoReply,
    };
    job.fate.end(RequestError::Cancelled);
    job.refuse(&error).await
}

/// The caller has dropped a call.
pub async fn receive_cancel(state: Rc<State>, mut message: Incoming) -> Result<(), MessageError> {
    let mut bytes = [0; CANCEL_HEADER];
    match message.read_exact(&mut bytes).await {
        Ok(()) => state
            .callers
            .cancel(&message.peer(), u64::from_le_bytes(bytes)),
        Err(MessageError::TooShort { .. }) => message.peer().fail(Nonsense::Request.into()),
        Err(error) => return Err(error),
    }
    Ok(())
}
