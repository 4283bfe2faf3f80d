//! Where the events of tripwires come: taken without waiting, by a thread that waits, by a task, or by a loop of descriptors.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::bell::{Bell, Told};
use super::error::MemoryError;
use crate::start::{generation, start};
use crate::wait::Second;

/// A waiter looks for so long before it sleeps: about what it takes to be woken.
const AWAKE: Duration = Duration::from_micros(20);

/// Tells a tripwire from all others of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WireId(pub(super) u64);

impl WireId {
    /// The same as a number, for programs that keep it elsewhere.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Somebody has written where a wire watches. The bytes are in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub wire: WireId,
}

/// A set of tripwires: those of all regions that were exported with it. Writes that touch a wire before its event is taken are one
/// event, so that no queue is ever full.
///
/// Its descriptor is for loops that wait by themselves: when it is readable, [`try_next`](EventQueue::try_next) until there is
/// nothing.
pub struct EventQueue {
    bell: Arc<Bell>,
    ready: VecDeque<Told>,
    /// Somebody may wait for the descriptor at any time, so that writers always ring.
    is_watched: AtomicBool,
    second: Option<Second>,
    generation: u32,
}

impl EventQueue {
    pub fn new() -> Result<EventQueue, MemoryError> {
        start();
        Ok(EventQueue {
            bell: Arc::new(Bell::new()?),
            ready: VecDeque::new(),
            is_watched: AtomicBool::new(false),
            second: None,
            generation: generation(),
        })
    }

    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// The next event, if there is one.
    pub fn try_next(&mut self) -> Result<Option<Event>, MemoryError> {
        if self.generation != generation() {
            return Err(MemoryError::Forked);
        }
        let found = self.look();
        if found.is_some() || !self.is_watched.load(Ordering::Relaxed) {
            return Ok(found);
        }
        // Who writes after the next look rings again.
        self.bell.drain();
        let found = self.look();
        if !self.ready.is_empty() {
            // The descriptor is readable until these are taken, too.
            self.bell.ring();
        }
        Ok(found)
    }

    fn look(&mut self) -> Option<Event> {
        loop {
            while let Some(told) = self.ready.pop_front() {
                if let Some(id) = told.take() {
                    return Some(Event { wire: WireId(id) });
                }
            }
            let ready = &mut self.ready;
            self.bell.collect(|told| ready.push_back(told));
            if self.ready.is_empty() {
                return None;
            }
        }
    }

    /// Waits for the next event.
    pub fn wait(&mut self) -> Result<Event, MemoryError> {
        loop {
            if let Some(event) = self.wait_until(None)? {
                return Ok(event);
            }
        }
    }

    /// The next event, if it comes within that time.
    pub fn wait_within(&mut self, time: Duration) -> Result<Option<Event>, MemoryError> {
        self.wait_until(Instant::now().checked_add(time))
    }

    fn wait_until(&mut self, end: Option<Instant>) -> Result<Option<Event>, MemoryError> {
        let awake = Instant::now() + AWAKE;
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            let now = Instant::now();
            if end.is_some_and(|end| end <= now) {
                return Ok(None);
            }
            if now < awake {
                std::hint::spin_loop();
                continue;
            }
            if let Some(event) = self.sleep(end.map(|end| end - now))? {
                return Ok(Some(event));
            }
        }
    }

    /// Until somebody rings, which may be for nothing.
    fn sleep(&mut self, time: Option<Duration>) -> Result<Option<Event>, MemoryError> {
        self.bell.sleep().begin();
        let found = self.look();
        let mut slept = Ok(0);
        if found.is_none() {
            let time = time.and_then(|time| Timespec::try_from(time).ok());
            let bell = self.bell.wait_fd();
            slept = poll(
                &mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)],
                time.as_ref(),
            );
        }
        // What is watched stays readable until somebody has looked and found nothing.
        if !self.is_watched.load(Ordering::Relaxed) {
            if found.is_none() {
                self.bell.drain();
            }
            self.bell.sleep().end();
        }
        match slept {
            Ok(_) | Err(Errno::INTR) => Ok(found),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The next event, for a task of any executor. Dropped before it is done, it has taken none.
    pub async fn event(&mut self) -> Result<Event, MemoryError> {
        poll_fn(|task| self.poll_event(task)).await
    }

    pub fn poll_event(&mut self, task: &mut Context<'_>) -> Poll<Result<Event, MemoryError>> {
        // From now on writers ring.
        let fd = self.as_raw_fd();
        if let Some(event) = self.try_next().transpose() {
            return Poll::Ready(event);
        }
        // SAFETY: of the bell, which this holds.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        // Taken out, so that the attempt may use the rest.
        let second = match self.second.take() {
            Some(second) => second,
            None => Second::new(fd)?,
        };
        let polled = second.poll(task, || self.try_next().transpose());
        self.second = Some(second);
        polled.map(|event| event?)
    }
}

impl AsFd for EventQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // What is shared with writers is the parent's, if this is a child of fork.
        if self.generation == generation() && !self.is_watched.swap(true, Ordering::Relaxed) {
            self.bell.sleep().begin();
            // What has come before was not rung for.
            self.bell.ring();
        }
        self.bell.wait_fd()
    }
}

impl AsRawFd for EventQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
