//! Receiving on a link: frames in their order. A message is handed to its handler where it is; what a handler does not
//! take is kept for it, so that what comes behind can be received. Credit bounds how much that is.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll};

use super::credit::{Granted, Unit};
use super::error::{MessageError, Nonsense};
use super::frame::{self, Data, Frame, GREETING, HEADER};
use super::incoming::Message;
use super::link::Link;
use super::reader::Reader;

/// The frame that is next in the stream.
pub struct Front {
    pub message: Rc<Message>,
    /// Bytes that are still to come.
    pub left: usize,
    last: bool,
}

pub struct Receive {
    pub reader: Reader,
    pub front: Option<Front>,
    pub granted: Granted,
    greeted: bool,
    /// Those that are under way, by their slots.
    open: HashMap<u16, Rc<Message>>,
    /// Those that no handler was started for, because nobody extracted.
    unstarted: VecDeque<Rc<Message>>,
    /// Is used again, if nobody has kept it.
    spare: Option<Rc<Message>>,
}

/// What has been received.
enum Step {
    /// Something.
    On,
    /// The beginning of a message.
    Begin(Rc<Message>),
    /// Nothing more has come.
    Wait,
}

impl Receive {
    pub fn new(window: usize) -> Receive {
        Receive {
            reader: Reader::default(),
            front: None,
            granted: Granted::new(window),
            greeted: false,
            open: HashMap::new(),
            unstarted: VecDeque::new(),
            spare: None,
        }
    }

    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    pub fn next_unstarted(&mut self) -> Option<Rc<Message>> {
        self.unstarted.pop_front()
    }

    pub fn has_unstarted(&self) -> bool {
        !self.unstarted.is_empty()
    }

    /// Messages of which not all has come.
    pub fn unfinished(&self) -> Vec<Rc<Message>> {
        let front = self.front.iter().map(|front| &front.message);
        front.chain(self.open.values()).cloned().collect()
    }

    fn is_open(&self, message: &Rc<Message>) -> bool {
        let front = self.front.as_ref();
        front.is_some_and(|front| Rc::ptr_eq(&front.message, message))
    }

    /// `n` bytes of the front frame were taken. The message, if these were its last.
    #[inline]
    pub fn front_took(&mut self, n: usize) -> Option<Rc<Message>> {
        let front = self.front.as_mut()?;
        front.left -= n;
        if front.left > 0 {
            return None;
        }
        let front = self.front.take()?;
        front.last.then_some(front.message)
    }

    fn begin_data(&mut self, data: Data) -> Result<Rc<Message>, Nonsense> {
        let begins = data.first.is_some();
        self.granted.take(data.class, data.len, begins)?;
        self.reader.begins(&data);
        let known = match data.first {
            Some(_) if data.last => None,
            _ => self.open.get(&data.slot),
        };
        let message = match (data.first, known) {
            (Some(handler), None) => self.new_message(handler, &data),
            (None, Some(known)) if known.class() == data.class => known.clone(),
            _ => return Err(Nonsense::Order),
        };
        match (data.last, data.first) {
            (true, None) => drop(self.open.remove(&data.slot)),
            (false, Some(_)) => drop(self.open.insert(data.slot, message.clone())),
            _ => {}
        }
        self.front = Some(Front {
            message: message.clone(),
            left: data.len,
            last: data.last,
        });
        if data.len == 0
            && let Some(ended) = self.front_took(0)
        {
            ended.end();
        }
        Ok(message)
    }

    fn new_message(&mut self, handler: u16, data: &Data) -> Rc<Message> {
        if let Some(mut spare) = self.spare.take()
            && let Some(unused) = Rc::get_mut(&mut spare)
        {
            unused.renew(handler, data.class);
            return spare;
        }
        Rc::new(Message::new(handler, data.class))
    }

    /// Keeps what has come of the front frame for its handler, or drops it if there is none any more.
    fn set_front_aside(&mut self) -> Option<Rc<Message>> {
        let front = self.front.as_ref()?;
        let bytes = self.reader.front(front.left);
        let n = bytes.len();
        if front.message.is_abandoned() {
            self.granted.release(front.message.class(), Unit::Bytes, n);
        } else {
            front.message.keep(bytes);
        }
        self.reader.skip(n);
        let message = front.message.clone();
        if let Some(ended) = self.front_took(n) {
            ended.end();
        }
        Some(message)
    }
}

impl Link {
    /// Receives until nothing more has come, or the budget is used up; at most for a turn. Handlers are run by `begin` and
    /// `run`.
    pub fn extract(&self, begin: &dyn Fn(&Rc<Message>), run: &dyn Fn()) {
        const TURN: usize = 1024;
        let context = self.context();
        let _ = self.poll_flush(&context);
        while let Some(message) = self.next_unstarted() {
            begin(&message);
        }
        for _ in 0..TURN {
            if self.driver.budget() == 0 || self.has_ended() {
                return self.look_again_unless_ended();
            }
            if self.offer_front(run) {
                continue;
            }
            match self.step(&context) {
                Ok(Step::On) => {}
                Ok(Step::Begin(message)) => {
                    begin(&message);
                    self.receive.borrow_mut().spare = Some(message);
                }
                Ok(Step::Wait) => return,
                Err(error) => return self.fail(error),
            }
        }
        self.look_again();
    }

    fn look_again_unless_ended(&self) {
        if !self.has_ended() || self.receive.borrow().has_unstarted() {
            self.look_again();
        }
    }

    fn next_unstarted(&self) -> Option<Rc<Message>> {
        if self.driver.budget() == 0 {
            return None;
        }
        self.receive.borrow_mut().next_unstarted()
    }

    /// Gives what has come to the handler that waits for it. Whether it has taken any.
    #[inline]
    fn offer_front(&self, run: &dyn Fn()) -> bool {
        let (message, before) = {
            let receive = self.receive.borrow();
            match &receive.front {
                Some(front) if receive.reader.available() > 0 && front.message.has_waiter() => {
                    (front.message.clone(), front.left)
                }
                _ => return false,
            }
        };
        message.wake();
        run();
        let receive = self.receive.borrow();
        let left = receive.front.as_ref().map_or(0, |front| front.left);
        !receive.is_open(&message) || left < before
    }

    /// Receives for somebody who waits to send, without running handlers. Whether anything has come.
    pub fn take_aside(&self, task: &Context<'_>) -> bool {
        if self.driver.is_driven() {
            return false;
        }
        // The other end may wait for that before it sends anything.
        let _ = self.poll_flush(task);
        let mut came = false;
        loop {
            match self.step(task) {
                Ok(Step::On) => came = true,
                Ok(Step::Begin(message)) => {
                    self.receive.borrow_mut().unstarted.push_back(message);
                    came = true;
                }
                Ok(Step::Wait) => break,
                Err(error) => {
                    self.fail(error);
                    return true;
                }
            }
        }
        if came {
            // For the next that extracts.
            self.look_again();
        }
        came
    }

    /// Receives one thing, and acts on it.
    fn step(&self, task: &Context<'_>) -> Result<Step, MessageError> {
        let mut receive = self.receive.borrow_mut();
        if receive.front.is_some() {
            if receive.reader.available() > 0 {
                let message = receive.set_front_aside();
                drop(receive);
                if let Some(message) = message {
                    message.wake();
                    self.release_message(&message);
                }
                self.grant();
                return Ok(Step::On);
            }
        } else if !receive.greeted {
            if let Some(greeting) = receive.reader.next::<GREETING>() {
                frame::check_greeting(&greeting)?;
                receive.greeted = true;
                drop(receive);
                self.grant();
                return Ok(Step::On);
            }
        } else if let Some(header) = receive.reader.next::<HEADER>() {
            let frame = Frame::decode(header)?;
            let Frame::Data(data) = frame else {
                drop(receive);
                self.act(frame)?;
                return Ok(Step::On);
            };
            let message = receive.begin_data(data)?;
            if data.first.is_some() {
                return Ok(Step::Begin(message));
            }
            drop(receive);
            self.release_message(&message);
            return Ok(Step::On);
        }
        let front = receive.front.as_ref();
        let for_waiter = front.is_none_or(|front| front.message.has_waiter());
        match receive.reader.poll_fill(&self.stream, for_waiter, task) {
            Poll::Pending => Ok(Step::Wait),
            Poll::Ready(Ok(0)) => Err(MessageError::PeerGone),
            Poll::Ready(Ok(_)) => Ok(Step::On),
            Poll::Ready(Err(error)) => Err(error.into()),
        }
    }

    fn act(&self, frame: Frame) -> Result<(), MessageError> {
        match frame {
            Frame::Data(_) => {}
            Frame::Credit { class, unit, count } => {
                self.send.borrow_mut().credit.grant(class, unit, count)?;
                self.wake_waiters();
            }
            Frame::Refused { handler } => self.send.borrow_mut().note_refusal(handler),
            Frame::Aborted { slot } => {
                let open = self.receive.borrow_mut().open.remove(&slot);
                let message = open.ok_or(Nonsense::Order)?;
                message.abort();
                self.release_message(&message);
            }
        }
        Ok(())
    }

    /// Tells the other end what it may send, if that is worth a frame.
    pub fn grant(&self) {
        if !self.receive.borrow().is_greeted() {
            return;
        }
        // To who does not read, what is said would pile up: it is said when the rest is sent.
        while !self.has_unsent() {
            let due = self.receive.borrow_mut().granted.due();
            match due {
                Some((class, unit, count)) => self.say(Frame::Credit { class, unit, count }),
                None => return,
            }
        }
    }

    /// A message has ended, or its handler has. When both have, its memory is free.
    pub fn release_message(&self, message: &Message) {
        if message.is_over() {
            let due = {
                let mut receive = self.receive.borrow_mut();
                receive.granted.release(message.class(), Unit::Messages, 1)
            };
            if due {
                self.grant();
            }
        }
    }
}
