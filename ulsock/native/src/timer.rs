//! A timer in the reactor of whoever waits for it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::wait::Reactor;

pub struct Timer {
    reactor: Arc<Reactor>,
    key: usize,
    /// When it rings.
    set: Option<Instant>,
}

impl Timer {
    pub fn new() -> io::Result<Timer> {
        let reactor = Reactor::current()?;
        let key = reactor.add_timer()?;
        Ok(Timer {
            reactor,
            key,
            set: None,
        })
    }

    /// When it rings next.
    pub fn rings_at(&self) -> Option<Instant> {
        self.set
    }

    pub fn set(&mut self, at: Instant) {
        self.set = Some(at);
    }

    /// Whether it has rung; else the task is woken when it does.
    pub fn poll(&mut self, task: &Context<'_>) -> Poll<io::Result<()>> {
        let Some(at) = self.set else {
            return Poll::Pending;
        };
        if at <= Instant::now() {
            self.set = None;
            return Poll::Ready(Ok(()));
        }
        match self.reactor.wake_at(self.key, at, task.waker()) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Waits until then.
    pub fn poll_until(&mut self, task: &Context<'_>, at: Instant) -> io::Result<Poll<()>> {
        self.set = Some(at);
        match self.poll(task) {
            Poll::Ready(rung) => rung.map(Poll::Ready),
            Poll::Pending => Ok(Poll::Pending),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.reactor.forget_timer(self.key);
    }
}
