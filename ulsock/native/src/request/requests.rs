//! An endpoint that calls and is called.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

use super::call::receive_reply;
use super::caller::Caller;
use super::codec::{Decode, Encode};
use super::error::{Failure, RequestError};
use super::header::{CALL, CANCEL, REPLY};
use super::reply::{ReplyWriter, RequestReader};
use super::serve::{Answer, Service, Streams, receive_call, receive_cancel};
use super::state::State;
use crate::message::{Endpoint, Layer, Peer};

/// What others can make this endpoint keep, beside the window of its messages.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Handlers that run at a time for each peer. Further calls wait, and hold their peer back.
    pub calls: usize,
    /// Bytes of a request or a reply that is received in one piece.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            calls: 1024,
            body: 16 << 20,
        }
    }
}

/// The requests of an endpoint, in both directions.
///
/// Handlers run, and replies come, while somebody serves the endpoint: with [`Endpoint::serve`], or
/// [`while_served`](Requests::while_served).
pub struct Requests {
    endpoint: Rc<Endpoint>,
    state: Rc<State>,
}

impl Requests {
    /// An error is that this endpoint has requests already.
    pub fn new(endpoint: &Rc<Endpoint>) -> io::Result<Requests> {
        Requests::with_limits(endpoint, Limits::default())
    }

    pub fn with_limits(endpoint: &Rc<Endpoint>, limits: Limits) -> io::Result<Requests> {
        if endpoint.has_handler(CALL) {
            let text = "the endpoint has requests already";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let state = Rc::new(State::new(limits, endpoint.tasks()));
        let layer: Weak<State> = Rc::downgrade(&state);
        endpoint.add_layer(layer as Weak<dyn Layer>);
        let own = state.clone();
        endpoint.handle_own(CALL, move |message| receive_call(own.clone(), message));
        let own = state.clone();
        endpoint.handle_own(REPLY, move |message| receive_reply(own.clone(), message));
        let own = state.clone();
        endpoint.handle_own(CANCEL, move |message| receive_cancel(own.clone(), message));
        Ok(Requests {
            endpoint: endpoint.clone(),
            state,
        })
    }

    /// From now on calls of this service are answered so.
    pub fn answer<Q, R, M, F>(&self, service: u16, answer: M)
    where
        M: Fn(Q) -> F + 'static,
        F: Future<Output = Result<R, Failure>> + 'static,
        Q: Decode + 'static,
        R: Encode + 'static,
    {
        self.add(service, Rc::new(Answer::new(answer)));
    }

    /// The same for requests and replies that are streams.
    pub fn stream<M, F>(&self, service: u16, handle: M)
    where
        M: Fn(RequestReader, ReplyWriter) -> F + 'static,
        F: Future<Output = Result<(), Failure>> + 'static,
    {
        self.add(service, Rc::new(Streams(Rc::new(handle))));
    }

    fn add(&self, number: u16, service: Rc<dyn Service>) {
        self.state.add_service(number, service);
    }

    pub async fn connect(&self, to: SocketAddr) -> Result<Caller, RequestError> {
        let peer = self.endpoint.connect(to).await?;
        Ok(self.caller(&peer))
    }

    /// Calls a peer of this endpoint, whoever has connected to whom.
    pub fn caller(&self, peer: &Peer) -> Caller {
        Caller::new(self.state.clone(), peer.clone())
    }

    /// Serves the endpoint until this future is done.
    pub async fn while_served<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut serve = pin!(self.endpoint.serve());
        poll_fn(|task| {
            if let Poll::Ready(done) = future.as_mut().poll(task) {
                return Poll::Ready(done);
            }
            // Somebody else may serve already: as long as he does.
            if serve.as_mut().poll(task).is_ready() {
                serve.set(self.endpoint.serve());
                self.endpoint.note_waiter(task);
            }
            Poll::Pending
        })
        .await
    }
}
