//! Who hears of names: blocking, as a task, or by any loop that waits for descriptors.

use std::future::poll_fn;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rendezvous::names::{Change, Watch};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::{NameError, Place};
use crate::wait::Second;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Appeared(Place),
    /// Withdrawn, or its process has ended, or there is no word from its host any more.
    Disappeared(Place),
}

/// An iterator that waits for the next event. What was there and is gone again before anybody looks may not be told; what is
/// told is in order, and each place that has appeared disappears before it appears anew.
///
/// Its descriptor is for loops that wait by themselves: when it is readable, [`try_next`](Subscription::try_next) until there
/// is nothing.
#[derive(Debug)]
pub struct Subscription {
    watch: Watch,
    second: Option<Second>,
}

impl Subscription {
    pub(super) fn new(watch: Watch) -> Subscription {
        Subscription {
            watch,
            second: None,
        }
    }

    /// The next event, if it has happened.
    pub fn try_next(&mut self) -> Result<Option<Event>, NameError> {
        let change = self.watch.next_change()?;
        Ok(change.map(|change| match change {
            Change::Appeared(record) => Event::Appeared(Place::new(record)),
            Change::Disappeared(record) => Event::Disappeared(Place::new(record)),
        }))
    }

    /// The next event, if it happens within that time.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Event>, NameError> {
        self.wait_until(Instant::now().checked_add(time))
    }

    fn wait_until(&mut self, end: Option<Instant>) -> Result<Option<Event>, NameError> {
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(
                &mut [PollFd::new(&self.watch, PollFlags::IN)],
                left.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The next event, for a task of any executor. Dropped before it is done, it has taken none.
    pub async fn event(&mut self) -> Result<Event, NameError> {
        poll_fn(|task| self.poll_event(task)).await
    }

    pub fn poll_event(&mut self, task: &mut Context<'_>) -> Poll<Result<Event, NameError>> {
        if let Some(event) = self.try_next().transpose() {
            return Poll::Ready(event);
        }
        // Taken out, so that the attempt may use the rest.
        let second = match self.second.take() {
            Some(second) => second,
            None => match Second::new(&self.watch) {
                Ok(second) => second,
                Err(error) => return Poll::Ready(Err(NameError::Os(error))),
            },
        };
        let polled = second.poll(task, || self.try_next().transpose());
        self.second = Some(second);
        polled.map(|event| event.map_err(NameError::Os)?)
    }
}

impl Iterator for Subscription {
    type Item = Result<Event, NameError>;

    /// Never `None`: it waits for as long as it takes.
    fn next(&mut self) -> Option<Result<Event, NameError>> {
        self.wait_until(None).transpose()
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

impl AsRawFd for Subscription {
    fn as_raw_fd(&self) -> RawFd {
        self.watch.as_fd().as_raw_fd()
    }
}
