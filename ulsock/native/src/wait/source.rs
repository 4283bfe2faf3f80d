//! A socket that tasks wait for.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use libc::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, c_int};

use sockets::api;

use super::Reactor;

/// What a task waits for: something to take, or room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

/// What may have happened since somebody found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Bytes, or room. An empty ring is the last word.
    Plain,
    /// The kernel's socket has something to say in any case: that the connection has ended, for example.
    OfKernel,
}

/// Tasks that are gone leave their wakers. If there are more, all are woken, and those that still wait come again.
const MOST_WAKERS: usize = 32;

/// In an edge-triggered set: each event is told once.
#[derive(Debug)]
pub struct Source {
    sides: [Mutex<SideState>; 2],
    fd: RawFd,
    is_stream: bool,
}

#[derive(Debug, Default)]
struct SideState {
    /// Has come since somebody found nothing.
    event: Option<Event>,
    wakers: Vec<Waker>,
}

impl SideState {
    fn note(&mut self, event: Event) {
        self.event = self.event.max(Some(event));
    }
}

impl Source {
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Waits awake for bytes in its ring, if a task waits for them and while it is worth it, or until `stop` says so. Whether
    /// the task was woken.
    pub fn wake_awake(&self, stop: &dyn Fn() -> bool) -> bool {
        if self.side(Direction::In).wakers.is_empty() || !api::wait_awake(self.fd, stop) {
            return false;
        }
        // No event: the next attempt finds what is in the ring.
        let wakers = std::mem::take(&mut self.side(Direction::In).wakers);
        wakers.into_iter().for_each(Waker::wake);
        true
    }

    /// Events that wake both sides are those after which every call returns at once.
    pub fn told(&self, events: u32) {
        const ENDS: c_int = EPOLLHUP | EPOLLERR;
        let has = |wanted: c_int| events & wanted.cast_unsigned() != 0;
        let event = match has(EPOLLPRI | EPOLLRDHUP | ENDS) {
            true => Event::OfKernel,
            false => Event::Plain,
        };
        if has(EPOLLIN | EPOLLPRI | EPOLLRDHUP | ENDS) {
            self.wake(Direction::In, event);
        }
        if has(EPOLLOUT | ENDS) {
            self.wake(Direction::Out, event);
        }
    }

    fn wake(&self, direction: Direction, event: Event) {
        let wakers = {
            let mut side = self.side(direction);
            side.note(event);
            std::mem::take(&mut side.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Nothing was there: what may have come since, else the task is woken when it does.
    fn come(&self, direction: Direction, task: &Context<'_>) -> Option<Event> {
        let mut side = self.side(direction);
        if let Some(event) = side.event.take() {
            return Some(event);
        }
        let waker = task.waker();
        if side.wakers.iter().any(|known| known.will_wake(waker)) {
            return None;
        }
        let left = match side.wakers.len() < MOST_WAKERS {
            true => Vec::new(),
            false => std::mem::take(&mut side.wakers),
        };
        side.wakers.push(waker.clone());
        drop(side);
        left.into_iter().for_each(Waker::wake);
        None
    }

    fn side(&self, direction: Direction) -> MutexGuard<'_, SideState> {
        // A waker that panicked has left nothing half done.
        self.sides[direction as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket's place in a reactor.
#[derive(Debug)]
pub struct Registration {
    reactor: Arc<Reactor>,
    key: usize,
    source: Arc<Source>,
}

impl Registration {
    pub fn new(socket: &impl AsRawFd, is_stream: bool) -> io::Result<Registration> {
        let reactor = Reactor::current()?;
        let source = Arc::new(Source {
            sides: Default::default(),
            fd: socket.as_raw_fd(),
            is_stream,
        });
        let key = reactor.register(socket, &source)?;
        Ok(Registration {
            reactor,
            key,
            source,
        })
    }

    /// Does what would block if it could not be done, as soon as it can.
    pub fn poll<T>(
        &self,
        direction: Direction,
        task: &Context<'_>,
        mut attempt: impl FnMut(Event) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.reactor.check_process()?;
        // What would block has been tried: only what has come since is worth another attempt.
        while let Some(event) = self.source.come(direction, task) {
            let done = loop {
                match attempt(event) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    done => break done,
                }
            };
            if !matches!(&done, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                // The event may have been of something behind this.
                self.source.side(direction).note(event);
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    }

    /// The only stream that this reactor waits for.
    pub fn is_only_stream_of(&self, reactor: &Arc<Reactor>) -> bool {
        Arc::ptr_eq(&self.reactor, reactor) && self.source.is_stream && reactor.has_one_stream()
    }

    /// Before the socket is closed.
    pub fn end(&self, socket: &impl AsRawFd) {
        self.reactor.forget(socket, self.key);
    }
}
