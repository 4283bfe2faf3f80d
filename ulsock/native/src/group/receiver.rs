//! The receiving half of a member: the rings of all others, in turn, and what happens to them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use os::spin::History;
use sockets::api;

use super::error::GroupError;
use super::life::Life;
use super::member::Event;
use super::sender::{sleep, take_rings};
use super::shared::{Change, Note, Over, Shared};
use super::stream::{Missing, Stream};
use crate::wait::{Direction, Registration};

/// Receives from all other members.
pub struct Receiver {
    shared: Arc<Shared>,
    _life: Arc<Life>,
    streams: Vec<Stream>,
    /// Whose turn it is.
    turn: usize,
    events: VecDeque<Event>,
    registration: Option<Registration>,
    history: History,
    cpus: usize,
}

impl Receiver {
    pub(super) fn new(shared: &Arc<Shared>, life: &Arc<Life>) -> Receiver {
        Receiver {
            shared: shared.clone(),
            _life: life.clone(),
            streams: Vec::new(),
            turn: 0,
            events: VecDeque::new(),
            registration: None,
            history: History::default(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// What comes next: a message, which is copied into the room, or something that has happened to a member. Waits for it.
    ///
    /// If the room is too small, the message is still the next (`NoRoom`).
    pub fn recv(&mut self, room: &mut [u8]) -> Result<Event, GroupError> {
        match self.wait(room, None)? {
            Some(event) => Ok(event),
            None => Err(GroupError::Ended),
        }
    }

    /// The same, if it comes within that time.
    pub fn recv_within(
        &mut self,
        time: Duration,
        room: &mut [u8],
    ) -> Result<Option<Event>, GroupError> {
        self.wait(room, Instant::now().checked_add(time))
    }

    /// The same for a task of any executor. Dropped before it is done, it has taken nothing.
    pub async fn recv_async(&mut self, room: &mut [u8]) -> Result<Event, GroupError> {
        poll_fn(|task| self.poll_recv(task, room)).await
    }

    /// The same without waiting.
    #[inline]
    pub fn try_recv(&mut self, room: &mut [u8]) -> Result<Option<Event>, GroupError> {
        self.shared.check()?;
        if self.shared.has_changes() {
            self.apply_changes();
        }
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        for _ in 0..self.streams.len() {
            let stream = &mut self.streams[self.turn];
            match stream.next(room, &self.shared) {
                Ok(Some(len)) => {
                    let from = stream.member;
                    // All that was there is taken before the next has its turn.
                    if stream.has_had_its_turn() {
                        self.next_turn();
                    }
                    return Ok(Some(Event::Message { from, len }));
                }
                Ok(None) => match stream.ended() {
                    Some(event) => return Ok(Some(self.remove(event))),
                    None => self.next_turn(),
                },
                Err(Missing::NoRoom(needed)) => return Err(GroupError::NoRoom { needed }),
                Err(Missing::Hostile) => {
                    let member = stream.member;
                    self.shared.note(Note::PutOut(member.number));
                    return Ok(Some(self.remove(Event::Failed(member))));
                }
            }
        }
        match self.shared.has_ended() {
            true => Err(GroupError::Ended),
            false => Ok(None),
        }
    }

    fn next_turn(&mut self) {
        self.turn += 1;
        if self.turn >= self.streams.len() {
            self.turn = 0;
        }
    }

    /// The stream whose turn it is has ended so.
    #[cold]
    fn remove(&mut self, event: Event) -> Event {
        let stream = self.streams.remove(self.turn);
        if self.turn >= self.streams.len() {
            self.turn = 0;
        }
        self.shared.note(Note::Done {
            number: stream.member.number,
            slot: stream.slot(),
        });
        event
    }

    #[cold]
    fn apply_changes(&mut self) {
        for change in self.shared.take_changes() {
            match change {
                Change::Joined {
                    member,
                    start,
                    says,
                } => {
                    self.streams.push(Stream::new(member, start, says));
                    self.events.push_back(Event::Joined(member));
                }
                Change::Ring { number, ring } => {
                    if let Some(stream) = self.stream(number) {
                        stream.read_from(ring);
                    }
                }
                Change::Over { number, over } => self.end(number, over),
            }
        }
    }

    fn end(&mut self, number: u32, over: Over) {
        if let Some(stream) = self.stream(number) {
            stream.end(over);
        }
    }

    /// The last: who was put out can be back before that has been told.
    fn stream(&mut self, number: u32) -> Option<&mut Stream> {
        let mut latest = self.streams.iter_mut().rev();
        latest.find(|stream| stream.member.number == number)
    }

    fn wait(&mut self, room: &mut [u8], end: Option<Instant>) -> Result<Option<Event>, GroupError> {
        loop {
            if let Some(event) = self.try_recv(room)? {
                return Ok(Some(event));
            }
            if let Some(event) = self.wait_awake(room).transpose() {
                return event.map(Some);
            }
            self.lie_down();
            if let Some(event) = self.try_recv(room).transpose() {
                self.get_up();
                return event.map(Some);
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                self.get_up();
                return Ok(None);
            }
            let slept = sleep(&self.shared.receiver_bell, end);
            self.get_up();
            slept?;
        }
    }

    /// As long as it is worth while on this host.
    fn wait_awake(&mut self, room: &mut [u8]) -> Result<Option<Event>, GroupError> {
        let history = std::mem::take(&mut self.history);
        let mut found = Ok(None);
        // More readers than CPUs: whoever looks all the time keeps the others from it. They have their turn, and meanwhile
        // enough comes to be worth a turn of ours.
        let is_crowded = self.streams.len() >= self.cpus;
        api::spin_until(
            &history,
            || is_crowded,
            || {
                found = self.try_recv(room);
                !matches!(found, Ok(None))
            },
        );
        self.history = history;
        found
    }

    fn lie_down(&self) {
        self.shared.page.rest().lie_down(0);
    }

    fn get_up(&self) {
        self.shared.page.rest().get_up();
    }

    fn poll_recv(
        &mut self,
        task: &Context<'_>,
        room: &mut [u8],
    ) -> Poll<Result<Event, GroupError>> {
        if let Some(event) = self.try_recv(room).transpose() {
            return Poll::Ready(event);
        }
        loop {
            self.lie_down();
            if let Some(event) = self.try_recv(room).transpose() {
                self.get_up();
                return Poll::Ready(event);
            }
            match self.poll_bell(task) {
                Ok(Poll::Ready(())) => {}
                Ok(Poll::Pending) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Whether it has rung.
    fn poll_bell(&mut self, task: &Context<'_>) -> Result<Poll<()>, GroupError> {
        let bell = &self.shared.receiver_bell;
        let registration = match &self.registration {
            Some(registration) => registration,
            None => self.registration.insert(Registration::new(bell, false)?),
        };
        match registration.poll(Direction::In, task, |_| take_rings(bell)) {
            Poll::Ready(rung) => Ok(Poll::Ready(rung?)),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// For loops that wait by themselves, by the descriptor: it becomes readable when something comes after this. If
    /// [`try_recv`](Receiver::try_recv) still finds nothing then, wait for it.
    pub fn rest(&mut self) {
        // In a child of fork the bell is its parent's.
        if self.shared.check().is_err() {
            return;
        }
        let _ = take_rings(&self.shared.receiver_bell);
        self.lie_down();
    }
}

impl AsFd for Receiver {
    /// To wait for, after [`rest`](Receiver::rest).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.receiver_bell.as_fd()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(registration) = &self.registration {
            registration.end(&self.shared.receiver_bell);
        }
    }
}
