//! A message that goes out, in any number of pieces. Small pieces are gathered into one frame; long ones are sent from
//! where they are.

use std::future::poll_fn;
use std::rc::Rc;

use super::credit::Class;
use super::error::MessageError;
use super::frame::{Data, Frame, HEADER};
use super::link::Link;
use super::send::{SHORT, ShortFrame};

/// A message that is being sent: pieces, then [`end`](Outgoing::end). Other messages to the same peer can be under way
/// meanwhile.
///
/// Whoever drops it before its end aborts it: its handler hears of that, if it was begun.
pub struct Outgoing {
    link: Rc<Link>,
    handler: u16,
    class: Class,
    /// Needed by messages of several frames.
    slot: Option<u16>,
    progress: Progress,
    /// A piece was dropped before all of it was sent.
    broken: bool,
    /// Room for a header, then gathered pieces.
    frame: ShortFrame,
    filled: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    New,
    /// A frame was sent.
    Begun,
    Ended,
}

impl Outgoing {
    #[inline]
    pub(super) fn new(link: Rc<Link>, handler: u16) -> Outgoing {
        let frame = link.send.borrow_mut().take_short_frame();
        Outgoing {
            class: link.driver.class(),
            link,
            handler,
            slot: None,
            progress: Progress::New,
            broken: false,
            frame,
            filled: HEADER,
        }
    }

    /// Adds these bytes. Waits if the other end has not taken enough of what was sent before.
    ///
    /// Dropped before it is done, it may have sent some of them: then the message can only be dropped, too.
    #[inline]
    pub async fn piece(&mut self, bytes: &[u8]) -> Result<(), MessageError> {
        if bytes.len() <= SHORT - self.filled {
            self.gather(bytes);
            return Ok(());
        }
        self.long_piece(bytes, false).await
    }

    /// Adds these bytes and ends the message.
    #[inline]
    pub async fn end_with(mut self, bytes: &[u8]) -> Result<(), MessageError> {
        if bytes.len() <= SHORT - self.filled {
            self.gather(bytes);
            return self.flush(true).await;
        }
        self.long_piece(bytes, true).await
    }

    /// Sends the pieces so far: small ones would else wait for more of them.
    pub async fn push(&mut self) -> Result<(), MessageError> {
        self.flush(false).await
    }

    /// The message is whole.
    #[inline]
    pub async fn end(mut self) -> Result<(), MessageError> {
        self.flush(true).await
    }

    #[inline]
    fn gather(&mut self, bytes: &[u8]) {
        self.frame[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    async fn long_piece(&mut self, mut bytes: &[u8], last: bool) -> Result<(), MessageError> {
        if self.filled > HEADER {
            self.flush(false).await?;
        }
        self.check()?;
        self.broken = true;
        while bytes.len() > SHORT - HEADER {
            let sent = self.send_long(bytes, last).await?;
            bytes = &bytes[sent..];
        }
        self.broken = false;
        if self.progress == Progress::Ended {
            return Ok(());
        }
        self.gather(bytes);
        match last {
            true => self.flush(true).await,
            false => Ok(()),
        }
    }

    /// Sends a frame of these bytes, and tells how many it carries.
    async fn send_long(&mut self, bytes: &[u8], last: bool) -> Result<usize, MessageError> {
        self.hear_refusal()?;
        let slot = self.slot()?;
        let data = self.frame_of(bytes.len(), last, slot);
        let link = self.link.clone();
        let mut frame = poll_fn(|task| link.poll_begin_long(task, data, bytes)).await?;
        let len = frame.len();
        self.sent(last && len == bytes.len());
        poll_fn(|task| frame.poll(task)).await?;
        Ok(len)
    }

    /// Sends what was gathered.
    #[inline]
    async fn flush(&mut self, last: bool) -> Result<(), MessageError> {
        self.check()?;
        let whole = last && self.progress == Progress::New;
        if !whole {
            self.hear_refusal()?;
        }
        let slot = if whole { 0 } else { self.slot()? };
        let data = self.frame_of(self.filled - HEADER, last, slot);
        poll_fn(|task| {
            let frame = &mut self.frame[..self.filled];
            self.link.poll_short(task, data, frame)
        })
        .await?;
        self.filled = HEADER;
        self.sent(last);
        Ok(())
    }

    fn check(&self) -> Result<(), MessageError> {
        match self.broken {
            true => Err(MessageError::Aborted),
            false => Ok(()),
        }
    }

    fn hear_refusal(&self) -> Result<(), MessageError> {
        match self.link.send.borrow_mut().take_refusal(self.handler) {
            true => Err(MessageError::NoHandler(self.handler)),
            false => Ok(()),
        }
    }

    fn slot(&mut self) -> Result<u16, MessageError> {
        if let Some(slot) = self.slot {
            return Ok(slot);
        }
        let slot = self.link.send.borrow_mut().new_slot()?;
        self.slot = Some(slot);
        Ok(slot)
    }

    #[inline]
    fn frame_of(&self, len: usize, last: bool, slot: u16) -> Data {
        Data {
            len,
            slot,
            first: (self.progress == Progress::New).then_some(self.handler),
            last,
            class: self.class,
        }
    }

    #[inline]
    fn sent(&mut self, last: bool) {
        self.progress = match last {
            true => Progress::Ended,
            false => Progress::Begun,
        };
    }
}

impl Drop for Outgoing {
    #[inline]
    fn drop(&mut self) {
        if let (Progress::Begun, Some(slot)) = (self.progress, self.slot) {
            self.link.say(Frame::Aborted { slot });
        }
        let mut send = self.link.send.borrow_mut();
        if let Some(slot) = self.slot {
            send.free_slot(slot);
        }
        send.keep_short_frame(std::mem::take(&mut self.frame));
    }
}
