//! A message that comes in: what its handler reads from.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::credit::{Class, Unit};
use super::error::MessageError;
use super::link::Link;
use super::peer::Peer;

/// What is known of a message at the receiving end.
pub struct Message {
    handler: u16,
    class: Class,
    phase: Cell<Phase>,
    /// Its handler is done with it.
    abandoned: Cell<bool>,
    released: Cell<bool>,
    /// Something was kept that is not taken yet.
    has_kept: Cell<bool>,
    kept: RefCell<Kept>,
    waiter: Cell<Option<Waker>>,
    has_waiter: Cell<bool>,
}

/// Has come, but the handler did not take it then.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    taken: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Coming,
    Ended,
    Aborted,
}

impl Message {
    pub fn new(handler: u16, class: Class) -> Message {
        Message {
            handler,
            class,
            phase: Cell::new(Phase::Coming),
            abandoned: Cell::new(false),
            released: Cell::new(false),
            has_kept: Cell::new(false),
            kept: RefCell::default(),
            waiter: Cell::new(None),
            has_waiter: Cell::new(false),
        }
    }

    /// Another one in the same memory.
    #[inline]
    pub fn renew(&mut self, handler: u16, class: Class) {
        self.handler = handler;
        self.class = class;
        self.phase.set(Phase::Coming);
        self.abandoned.set(false);
        self.released.set(false);
        if self.has_kept.replace(false) {
            *self.kept.get_mut() = Kept::default();
        }
        self.has_waiter.set(false);
    }

    pub fn handler(&self) -> u16 {
        self.handler
    }

    pub fn class(&self) -> Class {
        self.class
    }

    #[inline]
    pub fn end(&self) {
        self.phase.set(Phase::Ended);
        self.wake();
    }

    pub fn abort(&self) {
        self.phase.set(Phase::Aborted);
        self.wake();
    }

    pub fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// Whether both ends are done with it: told once.
    #[inline]
    pub fn is_over(&self) -> bool {
        let over = self.abandoned.get() && self.phase.get() != Phase::Coming;
        over && !self.released.replace(true)
    }

    pub fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept.borrow_mut();
        // What is taken is not kept: a handler that lags behind must not gather the whole message.
        if kept.taken > kept.bytes.len() / 2 {
            let taken = std::mem::take(&mut kept.taken);
            kept.bytes.drain(..taken);
        }
        kept.bytes.extend_from_slice(bytes);
        drop(kept);
        self.has_kept.set(!bytes.is_empty() || self.has_kept.get());
    }

    #[inline]
    fn take_kept(&self, room: &mut [u8]) -> usize {
        if !self.has_kept.get() {
            return 0;
        }
        let Kept { bytes, taken } = &mut *self.kept.borrow_mut();
        let rest = &bytes[*taken..];
        let n = rest.len().min(room.len());
        room[..n].copy_from_slice(&rest[..n]);
        *taken += n;
        if *taken == bytes.len() {
            bytes.clear();
            *taken = 0;
            self.has_kept.set(false);
        }
        n
    }

    #[inline]
    pub fn has_waiter(&self) -> bool {
        self.has_waiter.get()
    }

    fn wait(&self, task: &Context<'_>) {
        self.waiter.set(Some(task.waker().clone()));
        self.has_waiter.set(true);
    }

    #[inline]
    pub fn wake(&self) {
        if self.has_waiter.replace(false)
            && let Some(waiter) = self.waiter.take()
        {
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
    #[inline]
    pub async fn read(&mut self, room: &mut [u8]) -> Result<usize, MessageError> {
        poll_fn(|task| self.poll_read(task, room)).await
    }

    /// What there is until the end, as far as there is room for it. Less than the room has is all.
    #[inline]
    pub async fn read_up_to(&mut self, room: &mut [u8]) -> Result<usize, MessageError> {
        let mut filled = 0;
        while filled < room.len() && !self.is_read() {
            match self.read(&mut room[filled..]).await? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }

    /// All of it has come and was taken.
    #[inline]
    fn is_read(&self) -> bool {
        let message = &*self.message;
        message.phase.get() == Phase::Ended && !message.has_kept.get()
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
            let more = (at * 2)
                .clamp(256, 64 << 10)
                .min((most - at).saturating_add(1));
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

    #[inline]
    fn poll_read(
        &mut self,
        task: &Context<'_>,
        room: &mut [u8],
    ) -> Poll<Result<usize, MessageError>> {
        if room.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let message = &*self.message;
        if self.is_read() {
            return Poll::Ready(Ok(0));
        }
        if message.phase.get() == Phase::Aborted && !message.has_kept.get() {
            return Poll::Ready(Err(MessageError::Aborted));
        }
        let most = room.len().min(self.link.driver.budget());
        if most == 0 {
            // What has come is still to be had, as long as somebody can extract it.
            if !message.has_kept.get() || self.link.driver.is_over() {
                self.link.check()?;
            }
            self.link.driver.wait(task);
            return Poll::Pending;
        }
        let n = match message.take_kept(&mut room[..most]) {
            0 => self.take_front(&mut room[..most])?,
            n => n,
        };
        if n > 0 {
            self.took(n);
            return Poll::Ready(Ok(n));
        }
        self.link.check()?;
        message.wait(task);
        Poll::Pending
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
            receive.granted.release(self.message.class, Unit::Bytes, n)
        };
        if due {
            self.link.grant();
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let message = &*self.message;
        message.abandoned.set(true);
        if message.has_waiter.replace(false) {
            message.waiter.set(None);
        }
        if message.has_kept.replace(false) {
            let Kept { bytes, taken } = message.kept.take();
            let unread = bytes.len() - taken;
            let released = {
                let mut receive = self.link.receive.borrow_mut();
                receive.granted.release(message.class, Unit::Bytes, unread)
            };
            if released {
                self.link.grant();
            }
        }
        self.link.release_message(message);
    }
}
