//! Who hears of names: blocking, as a task, or by any loop that waits for descriptors.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rendezvous::names::{Change, Watch};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::{NameError, Place};
use crate::wait::{self, Direction};

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
    place: Option<InReactor>,
}

/// Its place in the reactor of the task that had to wait first.
#[derive(Debug)]
struct InReactor {
    /// A second descriptor of the watch: its own is one of those that ulsock keeps to itself, and no set takes it.
    fd: OwnedFd,
    registration: wait::Registration,
}

impl InReactor {
    fn new(watch: &Watch) -> io::Result<InReactor> {
        let fd = rustix::io::fcntl_dupfd_cloexec(watch, 0)?;
        let registration = wait::Registration::new(&fd, false)?;
        Ok(InReactor { fd, registration })
    }
}

impl Drop for InReactor {
    fn drop(&mut self) {
        self.registration.end(&self.fd);
    }
}

impl Subscription {
    pub(super) fn new(watch: Watch) -> Subscription {
        Subscription { watch, place: None }
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
        let place = match self.place.take() {
            Some(place) => place,
            None => match InReactor::new(&self.watch) {
                Ok(place) => place,
                Err(error) => return Poll::Ready(Err(NameError::Os(error))),
            },
        };
        let polled = place.registration.poll(Direction::In, task, |_| {
            let event = self.try_next().transpose();
            event.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        });
        self.place = Some(place);
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
