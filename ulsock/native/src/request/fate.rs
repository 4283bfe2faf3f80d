//! How a call ends before its time, at either end: whoever works for it looks here first, and is woken when there is
//! something to see.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::error::RequestError;

/// At most so many wait for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A task that writes.
    Write,
    /// A task that reads, or that handles the request.
    Read,
    /// The endpoint's own, which receives a reply.
    Receive,
}

#[derive(Debug, Default)]
pub struct Fate {
    end: RefCell<Option<RequestError>>,
    waiters: RefCell<[Option<Waker>; 3]>,
}

impl Fate {
    pub fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    pub fn check(&self) -> Result<(), RequestError> {
        match &*self.end.borrow() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// The first reason counts.
    pub fn end(&self, error: RequestError) {
        self.end.borrow_mut().get_or_insert(error);
        self.wake();
    }

    pub fn wake(&self) {
        let waiters = self.waiters.take();
        waiters.into_iter().flatten().for_each(Waker::wake);
    }

    /// From now on the task is woken.
    pub fn wait(&self, side: Side, task: &Context<'_>) {
        let waiter = &mut self.waiters.borrow_mut()[side as usize];
        if !waiter
            .as_ref()
            .is_some_and(|known| known.will_wake(task.waker()))
        {
            *waiter = Some(task.waker().clone());
        }
    }

    /// Works as long as the call is wanted.
    pub async fn guard<T, E>(
        &self,
        side: Side,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, RequestError>
    where
        RequestError: From<E>,
    {
        let mut work = pin!(work);
        poll_fn(|task| {
            self.check()?;
            if let Poll::Ready(done) = work.as_mut().poll(task) {
                return Poll::Ready(Ok(done?));
            }
            // The work itself may have ended it.
            self.check()?;
            self.wait(side, task);
            Poll::Pending
        })
        .await
    }
}
