//! What the program's threads and the group's own thread share: the member's memory, its bells, and a letter box in each
//! direction.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use netstack::broadcast::Rung;
use netstack::notice::Notice;
use rustix::event::{EventfdFlags, eventfd};

use super::error::GroupError;
use super::member::{Member, Options};
use super::memory::{OwnPage, OwnRing, Ring};
use super::near::Near;
use super::seats::Seats;
use crate::start::generation;

/// How a stream of messages ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// At this position.
    Left(u64),
    /// With what has come.
    Failed,
}

/// How a sender hears how far this member has come in its ring.
#[derive(Debug)]
pub enum Says {
    /// It looks at this slot.
    Near { slot: u16, sender: Arc<Near> },
    /// The group's thread tells it what is here.
    Far(Arc<AtomicU64>),
}

/// For the receiver.
#[derive(Debug)]
pub enum Change {
    Joined {
        member: Member,
        start: u64,
        says: Says,
    },
    /// What it sends is to be read here now.
    Ring {
        number: u32,
        ring: Ring,
    },
    Over {
        number: u32,
        over: Over,
    },
}

/// For the group's thread.
#[derive(Debug, PartialEq, Eq)]
pub enum Note {
    /// It has written nonsense, or takes nothing.
    PutOut(u32),
    /// Nothing more is read of this sender, and nobody uses this slot any more.
    Done { number: u32, slot: Option<u16> },
    /// The program has let go of the group.
    End,
}

pub struct Shared {
    pub options: Options,
    pub ring: Arc<OwnRing>,
    pub page: OwnPage,
    /// The receiver waits for this one, the sender for the other.
    pub receiver_bell: OwnedFd,
    pub sender_bell: OwnedFd,
    pub seats: Mutex<Seats>,
    pub members: Mutex<Vec<Member>>,
    changes: Mutex<(VecDeque<Change>, Rung)>,
    changed: Notice,
    notes: Mutex<Vec<Note>>,
    /// The group's thread is to look.
    nudged: Notice,
    thread: Mutex<Option<Waker>>,
    ended: AtomicBool,
    generation: u32,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

pub fn ring_bell(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

impl Shared {
    pub fn new(options: Options, ring: OwnRing, page: OwnPage) -> io::Result<Shared> {
        let ring = Arc::new(ring);
        Ok(Shared {
            options,
            seats: Mutex::new(Seats::new(ring.clone())),
            ring,
            page,
            receiver_bell: bell()?,
            sender_bell: bell()?,
            members: Mutex::default(),
            changes: Mutex::default(),
            changed: Notice::new(),
            notes: Mutex::default(),
            nudged: Notice::new(),
            thread: Mutex::default(),
            ended: AtomicBool::new(false),
            generation: generation(),
        })
    }

    pub fn is_of_this_process(&self) -> bool {
        self.generation == generation()
    }

    /// A child has the memory of its parent's member, but must not touch it.
    #[inline]
    pub fn check(&self) -> Result<(), GroupError> {
        match self.is_of_this_process() {
            true => Ok(()),
            false => Err(GroupError::Forked),
        }
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The group's thread is gone.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        ring_bell(&self.receiver_bell);
        ring_bell(&self.sender_bell);
    }

    /// Tells the receiver, and wakes it.
    pub fn change(&self, change: Change) {
        let mut changes = lock(&self.changes);
        changes.0.push_back(change);
        self.changed.raise();
        if self.page.rest().must_be_rung(&mut changes.1, 0) {
            ring_bell(&self.receiver_bell);
        }
    }

    #[inline]
    pub fn has_changes(&self) -> bool {
        self.changed.is_raised()
    }

    pub fn take_changes(&self) -> VecDeque<Change> {
        self.changed.lower();
        std::mem::take(&mut lock(&self.changes).0)
    }

    /// Tells the group's thread.
    pub fn note(&self, note: Note) {
        lock(&self.notes).push(note);
        self.nudge();
    }

    /// The group's thread is to look at what it has to send.
    #[inline]
    pub fn nudge(&self) {
        if self.nudged.raise()
            && let Some(waker) = &*lock(&self.thread)
        {
            waker.wake_by_ref();
        }
    }

    /// In the group's thread: waits until it was nudged.
    pub fn poll_nudged(&self, task: &Context<'_>) -> Poll<Vec<Note>> {
        *lock(&self.thread) = Some(task.waker().clone());
        match self.nudged.lower() {
            true => Poll::Ready(std::mem::take(&mut lock(&self.notes))),
            false => Poll::Pending,
        }
    }
}
