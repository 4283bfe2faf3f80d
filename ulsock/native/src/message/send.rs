//! Sending on a link: frames one after the other, each whole, whatever becomes of the task that sends it.

use std::task::{Context, Poll, ready};

use slab::Slab;

use super::credit::{Class, Spendable};
use super::error::MessageError;
use super::frame::{Data, Frame, HEADER, MOST_CARRIED, greeting};
use super::layer::RESERVED;
use super::link::Link;

/// A header and what follows it up to here are sent at once, from a copy.
pub const SHORT: usize = 512;

/// Where a short frame is gathered. Those that are not used have no memory.
pub type ShortFrame = Box<[u8]>;

/// Refusals are not told to a peer that does not read.
const MOST_UNSENT: usize = 4 << 10;

pub struct Send {
    /// Accepted, but the stream had no room: goes first.
    unsent: Vec<u8>,
    sent: usize,
    /// A task is in the middle of a long frame.
    busy: bool,
    /// Frames that have to wait for its end.
    behind: Vec<u8>,
    pub credit: Spendable,
    /// Numbers of messages that are under way.
    slots: Slab<()>,
    /// The other end has no such handlers.
    refused: Vec<u16>,
    spare: Option<ShortFrame>,
}

impl Send {
    pub fn new() -> Send {
        Send {
            unsent: Vec::new(),
            sent: 0,
            busy: false,
            behind: Vec::new(),
            credit: Spendable::new(),
            slots: Slab::new(),
            refused: Vec::new(),
            spare: None,
        }
    }

    pub fn take_short_frame(&mut self) -> ShortFrame {
        let spare = self.spare.take();
        spare.unwrap_or_else(|| vec![0; SHORT].into_boxed_slice())
    }

    pub fn keep_short_frame(&mut self, frame: ShortFrame) {
        self.spare = Some(frame);
    }

    pub fn new_slot(&mut self) -> Result<u16, MessageError> {
        match u16::try_from(self.slots.vacant_key()) {
            Ok(slot) => {
                self.slots.insert(());
                Ok(slot)
            }
            Err(_) => Err(MessageError::TooMany),
        }
    }

    pub fn free_slot(&mut self, slot: u16) {
        self.slots.try_remove(usize::from(slot));
    }

    pub fn note_refusal(&mut self, handler: u16) {
        if !self.refused.contains(&handler) {
            self.refused.push(handler);
        }
    }

    /// Of ulsock's own numbers: nobody asks for these.
    pub fn take_own_refusal(&mut self) -> Option<u16> {
        let at = self
            .refused
            .iter()
            .position(|refused| *refused >= RESERVED)?;
        Some(self.refused.swap_remove(at))
    }

    /// Told once.
    pub fn take_refusal(&mut self, handler: u16) -> bool {
        if self.refused.is_empty() {
            return false;
        }
        let at = self.refused.iter().position(|refused| *refused == handler);
        at.map(|at| self.refused.swap_remove(at)).is_some()
    }
}

impl Link {
    pub fn greet(&self) {
        self.put(&greeting());
    }

    /// A frame without bytes: as soon as there is room, behind a frame that is being sent.
    pub fn say(&self, frame: Frame) {
        {
            let mut send = self.send.borrow_mut();
            let is_refusal = matches!(frame, Frame::Refused { .. });
            if is_refusal && send.unsent.len() + send.behind.len() > MOST_UNSENT {
                return;
            }
            if send.busy {
                return send.behind.extend(frame.encode());
            }
        }
        self.put(&frame.encode());
    }

    /// Sends at once what there is room for, and keeps the rest.
    #[inline]
    fn put(&self, bytes: &[u8]) {
        if self.is_mute() {
            return;
        }
        let mut done = 0;
        if self.send.borrow().unsent.is_empty() {
            done = match self.stream.try_send(bytes) {
                Ok(n) => n,
                Err(error) => return self.fail_sending(error.into()),
            };
        }
        if done < bytes.len() {
            self.send.borrow_mut().unsent.extend(&bytes[done..]);
            self.look_again();
        }
    }

    /// Something has to wait for room.
    pub fn has_unsent(&self) -> bool {
        let send = self.send.borrow();
        !send.unsent.is_empty() || !send.behind.is_empty()
    }

    /// Sends what was kept. Then others can have their turn.
    pub fn poll_flush(&self, task: &Context<'_>) -> Poll<()> {
        loop {
            let mut send = self.send.borrow_mut();
            let Send { unsent, sent, .. } = &mut *send;
            if *sent == unsent.len() || self.is_mute() {
                let had_some = !unsent.is_empty();
                unsent.clear();
                *sent = 0;
                drop(send);
                self.grant();
                if had_some {
                    self.wake_waiters();
                }
                return Poll::Ready(());
            }
            match ready!(self.stream.poll_send(task, &unsent[*sent..])) {
                Ok(n) => *sent += n,
                Err(error) => {
                    drop(send);
                    self.fail_sending(error.into());
                    return Poll::Ready(());
                }
            }
        }
    }

    /// A frame can be begun.
    #[inline]
    pub fn poll_turn(&self, task: &Context<'_>) -> Poll<Result<(), MessageError>> {
        loop {
            self.check_sending()?;
            let (busy, has_unsent) = {
                let send = self.send.borrow();
                (send.busy, !send.unsent.is_empty())
            };
            if !busy && (!has_unsent || self.poll_flush(task).is_ready()) {
                return Poll::Ready(self.check_sending());
            }
            self.wait(task);
            // The other end may wait for the same: what comes from it has to be taken.
            if !self.take_aside(task) {
                return Poll::Pending;
            }
        }
    }

    #[inline]
    fn poll_credit(
        &self,
        task: &Context<'_>,
        class: Class,
        bytes: usize,
        begins: bool,
    ) -> Poll<Result<(), MessageError>> {
        loop {
            self.check_sending()?;
            if self.send.borrow().credit.covers(class, bytes, begins) {
                return Poll::Ready(Ok(()));
            }
            self.wait(task);
            if !self.take_aside(task) {
                return Poll::Pending;
            }
        }
    }

    /// Sends a message in one frame, if that can be done at once: from where it is, if a ring takes it, else gathered if it
    /// is short.
    #[inline]
    pub fn try_whole(&self, handler: u16, bytes: &[u8]) -> bool {
        let class = self.driver.class();
        let mut send = self.send.borrow_mut();
        let free = !send.busy && send.unsent.is_empty() && send.refused.is_empty();
        let covered = send.credit.covers(class, bytes.len(), true);
        if !free || bytes.len() > MOST_CARRIED || !covered || self.is_mute() {
            return false;
        }
        let header = Frame::Data(Data {
            len: bytes.len(),
            slot: 0,
            first: Some(handler),
            last: true,
            class,
        })
        .encode();
        if self.stream.try_send_two(&header, bytes) {
            send.credit.spend(class, bytes.len(), true);
            return true;
        }
        if HEADER + bytes.len() > SHORT {
            return false;
        }
        let mut frame = send.take_short_frame();
        send.credit.spend(class, bytes.len(), true);
        drop(send);
        frame[..HEADER].copy_from_slice(&header);
        frame[HEADER..HEADER + bytes.len()].copy_from_slice(bytes);
        self.put(&frame[..HEADER + bytes.len()]);
        self.send.borrow_mut().keep_short_frame(frame);
        true
    }

    /// Sends a short frame whose header has its place before the bytes.
    #[inline]
    pub fn poll_short(
        &self,
        task: &Context<'_>,
        data: Data,
        frame: &mut [u8],
    ) -> Poll<Result<(), MessageError>> {
        let begins = data.first.is_some();
        ready!(self.poll_credit(task, data.class, data.len, begins))?;
        ready!(self.poll_turn(task))?;
        let mut send = self.send.borrow_mut();
        send.credit.spend(data.class, data.len, begins);
        drop(send);
        frame[..HEADER].copy_from_slice(&Frame::Data(data).encode());
        self.put(frame);
        Poll::Ready(Ok(()))
    }

    /// Begins a long frame with as many of the bytes as there is credit for, and sends the first of them.
    pub fn poll_begin_long<'a>(
        &'a self,
        task: &Context<'_>,
        mut data: Data,
        bytes: &'a [u8],
    ) -> Poll<Result<LongFrame<'a>, MessageError>> {
        let begins = data.first.is_some();
        ready!(self.poll_credit(task, data.class, SHORT.min(bytes.len()), begins))?;
        ready!(self.poll_turn(task))?;
        let mut send = self.send.borrow_mut();
        let most = send.credit.bytes(data.class);
        data.len = bytes.len().min(most).min(MOST_CARRIED);
        // Only the last bytes are in the last frame.
        data.last &= data.len == bytes.len();
        send.credit.spend(data.class, data.len, begins);
        send.busy = true;
        drop(send);
        let mut first = [0; SHORT];
        let copied = data.len.min(SHORT - HEADER);
        first[..HEADER].copy_from_slice(&Frame::Data(data).encode());
        first[HEADER..HEADER + copied].copy_from_slice(&bytes[..copied]);
        let frame = LongFrame {
            link: self,
            bytes: &bytes[..data.len],
            done: copied,
            class: data.class,
        };
        frame.send_first(&first[..HEADER + copied]);
        Poll::Ready(Ok(frame))
    }
}

/// A long frame that is being sent. Whoever drops it has sent it nevertheless: its bytes are kept then.
pub struct LongFrame<'a> {
    link: &'a Link,
    bytes: &'a [u8],
    done: usize,
    class: Class,
}

impl LongFrame<'_> {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    fn send_first(&self, first: &[u8]) {
        match self.link.stream.try_send(first) {
            // Rare: the stream is full at this very place.
            Ok(n) => self.link.send.borrow_mut().unsent.extend(&first[n..]),
            Err(error) => self.link.fail_sending(error.into()),
        }
    }

    /// Sends the rest.
    pub fn poll(&mut self, task: &Context<'_>) -> Poll<Result<(), MessageError>> {
        loop {
            self.link.check_sending()?;
            if self.link.poll_flush(task).is_ready() {
                if self.done == self.bytes.len() {
                    return Poll::Ready(self.link.check_sending());
                }
                match self.link.stream.poll_send(task, &self.bytes[self.done..]) {
                    Poll::Ready(Ok(n)) => {
                        self.done += n;
                        continue;
                    }
                    Poll::Ready(Err(error)) => {
                        self.link.fail_sending(error.into());
                        continue;
                    }
                    Poll::Pending => {}
                }
            }
            // A handler runs only while somebody extracts: it must not keep the link meanwhile.
            if self.class == Class::Reply {
                self.set_rest_aside();
                return Poll::Ready(Ok(()));
            }
            self.link.wait(task);
            if !self.link.take_aside(task) {
                return Poll::Pending;
            }
        }
    }

    fn set_rest_aside(&mut self) {
        let rest = &self.bytes[self.done..];
        self.link.send.borrow_mut().unsent.extend(rest);
        self.done = self.bytes.len();
    }
}

impl Drop for LongFrame<'_> {
    fn drop(&mut self) {
        self.set_rest_aside();
        let mut send = self.link.send.borrow_mut();
        send.busy = false;
        let behind = std::mem::take(&mut send.behind);
        send.unsent.extend(behind);
        let has_unsent = send.sent < send.unsent.len();
        drop(send);
        if has_unsent {
            self.link.look_again();
        }
        self.link.wake_waiters();
    }
}
