//! A message that comes in: what its handler reads from.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::error::MessageError;
use super::frame::Class;
use super::link::Link;
use super::peer::Peer;

/// What is known of a message at the receiving end.
pub struct Message {
    handler: u16,
    class: Class,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Has come, but the handler did not take it then.
    kept: Vec<u8>,
    taken: usize,
    phase: Phase,
    /// Its handler is done with it.
    abandoned: bool,
    released: bool,
    waiter: Option<Waker>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Coming,
    Ended,
    Aborted,
}

impl Message {
    pub fn new(handler: u16, class: Class) -> Message {
        Message {
            handler,
            class,
            state: RefCell::default(),
        }
    }

    /// Another one in the same memory.
    pub fn renew(&mut self, handler: u16, class: Class) {
        self.handler = handler;
        self.class = class;
        let state = self.state.get_mut();
        state.kept.clear();
        state.taken = 0;
        state.phase = Phase::Coming;
        state.abandoned = false;
        state.released = false;
        state.waiter = None;
    }

    pub fn handler(&self) -> u16 {
        self.handler
    }

    pub fn class(&self) -> Class {
        self.class
    }

    pub fn end(&self) {
        self.state.borrow_mut().phase = Phase::Ended;
        self.wake();
    }

    pub fn abort(&self) {
        self.state.borrow_mut().phase = Phase::Aborted;
        self.wake();
    }

    pub fn is_abandoned(&self) -> bool {
        self.state.borrow().abandoned
    }

    /// Whether both ends are done with it: told once.
    pub fn is_over(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let over = state.abandoned && state.phase != Phase::Coming && !state.released;
        state.released |= over;
        over
    }

    pub fn keep(&self, bytes: &[u8]) {
        let mut state = self.state.borrow_mut();
        if state.taken == state.kept.len() {
            state.kept.clear();
            state.taken = 0;
        }
        state.kept.extend_from_slice(bytes);
    }

    pub fn has_waiter(&self) -> bool {
        self.state.borrow().waiter.is_some()
    }

    pub fn wake(&self) {
        let waiter = self.state.borrow_mut().waiter.take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

/// A message, as its handler receives it: in pieces of any size, whatever the sender's were.
///
/// Whoever drops it takes nothing more of it; the rest is skipped when it comes.
pub struct Incoming {
    link: Rc<Link>,
    message: Rc<Message>,
}

impl Incoming {
    pub(super) fn new(link: Rc<Link>, message: Rc<Message>) -> Incoming {
        Incoming { link, message }
    }

    /// Who has sent it.
    pub fn peer(&self) -> Peer {
        Peer::new(self.link.clone())
    }

    /// The number that it was sent to.
    pub fn handler(&self) -> u16 {
        self.message.handler
    }

    /// Some bytes, as soon as there are any; none at the end. Dropped before that, it has taken nothing.
    pub async fn read(&mut self, room: &mut [u8]) -> Result<usize, MessageError> {
        poll_fn(|task| self.poll_read(task, room)).await
    }

    /// Fills the room.
    pub async fn read_exact(&mut self, mut room: &mut [u8]) -> Result<(), MessageError> {
        while !room.is_empty() {
            match self.read(room).await? {
                0 => {
                    return Err(MessageError::TooShort {
                        missing: room.len(),
                    });
                }
                n => room = &mut room[n..],
            }
        }
        Ok(())
    }

    /// The rest, if it is not longer than `most`: whoever takes messages of any length lets others fill his memory.
    pub async fn read_rest(&mut self, most: usize) -> Result<Vec<u8>, MessageError> {
        let mut all = Vec::new();
        loop {
            let at = all.len();
            let more = (at * 2).clamp(256, 64 << 10).min(most + 1 - at);
            all.resize(at + more, 0);
            let n = self.read(&mut all[at..]).await?;
            all.truncate(at + n);
            if n == 0 {
                return Ok(all);
            }
            if all.len() > most {
                return Err(MessageError::TooLong { most });
            }
        }
    }

    /// Skips the rest, and waits for its end.
    pub async fn skip(mut self) -> Result<(), MessageError> {
        let mut room = [0; 4096];
        while self.read(&mut room).await? > 0 {}
        Ok(())
    }

    fn poll_read(
        &mut self,
        task: &Context<'_>,
        room: &mut [u8],
    ) -> Poll<Result<usize, MessageError>> {
        if room.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let most = room.len().min(self.link.driver.budget());
        let n = match self.take_kept(&mut room[..most]) {
            0 => self.take_front(&mut room[..most])?,
            n => n,
        };
        if n > 0 {
            self.took(n);
            return Poll::Ready(Ok(n));
        }
        let mut state = self.message.state.borrow_mut();
        match state.phase {
            Phase::Ended if state.taken == state.kept.len() => return Poll::Ready(Ok(0)),
            Phase::Aborted if state.taken == state.kept.len() => {
                return Poll::Ready(Err(MessageError::Aborted));
            }
            _ => {}
        }
        if most == 0 {
            drop(state);
            self.link.driver.wait(task);
            return Poll::Pending;
        }
        self.link.check()?;
        state.waiter = Some(task.waker().clone());
        Poll::Pending
    }

    #[inline]
    fn take_kept(&self, room: &mut [u8]) -> usize {
        let mut state = self.message.state.borrow_mut();
        let kept = &state.kept[state.taken..];
        let n = kept.len().min(room.len());
        room[..n].copy_from_slice(&kept[..n]);
        state.taken += n;
        n
    }

    /// From the stream itself, if this message is the next there.
    #[inline]
    fn take_front(&self, room: &mut [u8]) -> Result<usize, MessageError> {
        let mut receive = self.link.receive.borrow_mut();
        let left = match &receive.front {
            Some(front) if Rc::ptr_eq(&front.message, &self.message) => front.left,
            _ => return Ok(0),
        };
        let most = room.len().min(left);
        let ahead = receive.reader.front(most);
        let mut n = ahead.len();
        room[..n].copy_from_slice(ahead);
        receive.reader.skip(n);
        let mut failed = None;
        if n < most {
            match self.link.stream.try_recv(&mut room[n..most]) {
                Ok(Some(0)) => failed = Some(MessageError::PeerGone),
                Ok(Some(more)) => n += more,
                Ok(None) => {}
                Err(error) => failed = Some(error.into()),
            }
        }
        let ended = receive.front_took(n);
        drop(receive);
        if let Some(ended) = ended {
            ended.end();
        }
        if let Some(failed) = failed {
            self.link.fail(failed);
        }
        Ok(n)
    }

    #[inline]
    fn took(&self, n: usize) {
        self.link.driver.take(n);
        let due = {
            let mut receive = self.link.receive.borrow_mut();
            receive.granted.release(self.message.class, n)
        };
        if due {
            self.link.grant();
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let unread = {
            let mut state = self.message.state.borrow_mut();
            state.abandoned = true;
            state.waiter = None;
            let unread = state.kept.len() - state.taken;
            state.taken = state.kept.len();
            unread
        };
        if unread > 0 {
            let mut receive = self.link.receive.borrow_mut();
            receive.granted.release(self.message.class, unread);
        }
        self.link.release_message(&self.message);
    }
}
