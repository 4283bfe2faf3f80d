//! The other end, as a program holds it.

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::error::MessageError;
use super::link::Link;
use super::outgoing::Outgoing;
use crate::timer::Timer;

/// Another endpoint, to which messages can be sent. Copies mean the same.
#[derive(Clone)]
pub struct Peer(Rc<Link>);

impl Peer {
    pub(super) fn new(link: Rc<Link>) -> Peer {
        Peer(link)
    }

    /// Its address; of one that has connected to this endpoint, that of its connection.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Begins a message for the handler of this number at the other end.
    ///
    /// An error is what is known of the peer already: that it is gone, or that it has refused an earlier message to this
    /// handler.
    #[inline]
    pub fn begin(&self, handler: u16) -> Result<Outgoing, MessageError> {
        self.0.check_sending()?;
        if self.0.send.borrow_mut().take_refusal(handler) {
            return Err(MessageError::NoHandler(handler));
        }
        Ok(Outgoing::new(self.0.clone(), handler))
    }

    /// Sends a message of one piece.
    #[inline]
    pub async fn send(&self, handler: u16, bytes: &[u8]) -> Result<(), MessageError> {
        match self.0.try_whole(handler, bytes) {
            true => Ok(()),
            false => self.begin(handler)?.end_with(bytes).await,
        }
    }

    /// Ends the connection, for this reason.
    pub(crate) fn fail(&self, error: MessageError) {
        self.0.fail(error);
    }

    /// Why the peer is gone.
    pub(crate) fn check(&self) -> Result<(), MessageError> {
        self.0.check()
    }

    /// Tells it from all others as long as it is held.
    pub(crate) fn key(&self) -> usize {
        Rc::as_ptr(&self.0).addr()
    }

    /// Waits until the peer is gone, and tells why.
    pub async fn gone(&self) -> MessageError {
        poll_fn(|task| self.poll_gone(task)).await
    }

    fn poll_gone(&self, task: &Context<'_>) -> Poll<MessageError> {
        loop {
            if let Err(error) = self.0.check() {
                return Poll::Ready(error);
            }
            self.0.wait(task);
            if !self.0.take_aside(task) {
                return Poll::Pending;
            }
        }
    }

    pub fn is_gone(&self) -> bool {
        self.0.has_ended()
    }

    /// Ends the connection, after all that was sent: waits until it has come to the peer's host. What has not been extracted of the
    /// peer's messages is lost.
    ///
    /// Dropped before it is done, it ends the connection at once.
    pub async fn close(&self) {
        let _ends = Ends(&self.0);
        let turn = poll_fn(|task| self.0.poll_turn(task)).await;
        if turn.is_err() {
            return;
        }
        self.0.fail_sending(MessageError::PeerGone);
        // A socket that is closed while the other end still sends is reset, and what it has not sent is lost.
        let mut pause = SHORTEST_PAUSE;
        while self.0.stream.has_unsent() {
            let Ok(mut over) = Timer::new() else { return };
            let end = Instant::now() + pause;
            let waited = poll_fn(|task| match self.poll_gone(task) {
                Poll::Ready(_) => Poll::Ready(Ok(())),
                Poll::Pending => match over.poll_until(task, end) {
                    Ok(polled) => polled.map(Ok),
                    Err(error) => Poll::Ready(Err(error)),
                },
            });
            if waited.await.is_err() || self.is_gone() {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Between two looks whether all has been sent: the kernel tells nobody.
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

struct Ends<'a>(&'a Link);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fail(MessageError::PeerGone);
    }
}

impl PartialEq for Peer {
    fn eq(&self, other: &Peer) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Peer {}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Peer").field(&self.address()).finish()
    }
}
