//! The message link to another member: what is said there goes out in order, and is heard in order.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::group::memory::Ring;
use crate::group::near::Near;
use crate::group::wire::{NO_SLOT, Said};
use crate::message::{MessageError, Nonsense, Peer};
use crate::names::Place;

/// Handlers of messages can overtake each other, but not by more.
const MOST_EARLY: usize = 64;

/// What is to be said to one that does not listen. Members say less to each other, however many there are.
const MOST_QUEUED: usize = 1 << 14;

/// An honest sender makes us its relay when another one is gone, and when we cannot read that one: not more often.
const MOST_RELAYS: u32 = 3;

/// What the other has said of itself.
#[derive(Clone, Copy, Debug)]
pub struct Hello {
    pub number: u32,
    pub ring: u64,
    /// Of its cursor in our ring.
    pub slot: u16,
    pub ticket: Option<[u8; crate::share::LEN]>,
}

/// How far two members are with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not said who it is.
    Stranger,
    /// It is a member.
    Greeted,
    /// It gets what is sent here.
    Seated,
    /// It has said that it leaves.
    Left,
}

pub struct Link {
    pub peer: Peer,
    pub stage: Cell<Stage>,
    /// As names know it.
    pub place: Cell<Option<Place>>,
    pub hello: Cell<Option<Hello>>,
    pub near: RefCell<Option<Arc<Near>>>,
    /// Its ring, until the receiver has it.
    pub ring: RefCell<Option<Ring>>,
    /// Of our cursor in its ring, until the receiver has it.
    pub slot: Cell<u16>,
    /// What it sends comes to the receiver.
    pub is_fed: Cell<bool>,
    queue: RefCell<VecDeque<Said>>,
    /// How far we have come in what it sends: only the last word counts.
    taken: Cell<Option<u64>>,
    relays: Cell<u32>,
    said: Cell<u64>,
    /// To be said when there is nothing else left.
    farewell: Cell<Option<u64>>,
    writer: Cell<Option<Waker>>,
    is_over: Cell<bool>,
    heard: Cell<u64>,
    early: RefCell<BTreeMap<u64, Said>>,
}

impl Link {
    pub fn new(peer: Peer, place: Option<Place>) -> Link {
        Link {
            peer,
            stage: Cell::new(Stage::Stranger),
            place: Cell::new(place),
            hello: Cell::new(None),
            near: RefCell::default(),
            ring: RefCell::default(),
            slot: Cell::new(NO_SLOT),
            is_fed: Cell::new(false),
            queue: RefCell::default(),
            taken: Cell::new(None),
            relays: Cell::new(0),
            said: Cell::new(0),
            farewell: Cell::new(None),
            writer: Cell::new(None),
            is_over: Cell::new(false),
            heard: Cell::new(0),
            early: RefCell::default(),
        }
    }

    /// Of whoever has said it.
    pub fn number(&self) -> Option<u32> {
        Some(self.hello.get()?.number)
    }

    /// Whose end has been noticed already.
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub fn say(&self, said: Said) {
        if self.queue.borrow().len() >= MOST_QUEUED {
            return self.refuse();
        }
        self.queue.borrow_mut().push_back(said);
        self.wake_writer();
    }

    pub fn say_taken(&self, at: u64) {
        self.taken.set(Some(at));
        self.wake_writer();
    }

    /// The other names us as its relay once more. Each time that takes memory.
    pub fn may_make_us_relay(&self) -> bool {
        let relays = self.relays.get();
        self.relays.set(relays + 1);
        relays < MOST_RELAYS
    }

    /// There may be something to be sent.
    pub fn wake_writer(&self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    pub fn say_farewell(&self, end: u64) {
        self.farewell.set(Some(end));
        self.wake_writer();
    }

    /// Nothing more can be said.
    pub fn end(&self) {
        self.is_over.set(true);
        self.wake_writer();
    }

    pub fn wait(&self, task: &Context<'_>) {
        self.writer.set(Some(task.waker().clone()));
    }

    pub fn next_said(&self) -> Option<Said> {
        let said = self.queue.borrow_mut().pop_front();
        said.or_else(|| self.taken.take().map(Said::Taken))
    }

    pub fn take_farewell(&self) -> Option<Said> {
        self.farewell.take().map(|end| Said::Bye { end })
    }

    /// Ready to be sent.
    pub fn encode(&self, said: &Said) -> Vec<u8> {
        let turn = self.said.get();
        self.said.set(turn + 1);
        said.encode(turn)
    }

    /// What has come, as far as it is its turn.
    pub fn hear(&self, bytes: &[u8]) -> Option<Vec<Said>> {
        let (turn, said) = Said::decode(bytes)?;
        let mut early = self.early.borrow_mut();
        if turn < self.heard.get() || early.len() >= MOST_EARLY {
            return None;
        }
        if early.insert(turn, said).is_some() {
            return None;
        }
        let mut all = Vec::new();
        while let Some(said) = early.remove(&self.heard.get()) {
            self.heard.set(self.heard.get() + 1);
            all.push(said);
        }
        Some(all)
    }

    /// It has said what no member says.
    pub fn refuse(&self) {
        self.peer.fail(MessageError::Nonsense(Nonsense::Group));
    }
}
