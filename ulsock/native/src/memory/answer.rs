//! An answer that one thread gives and another waits for: as a task, or blocking.

use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

pub struct Answer<T>(Arc<Parts<T>>);

struct Parts<T> {
    slot: Mutex<Slot<T>>,
    given: Condvar,
}

struct Slot<T> {
    value: Option<T>,
    waiter: Option<Waker>,
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Answer<T> {
        Answer(self.0.clone())
    }
}

impl<T> Answer<T> {
    pub fn new() -> Answer<T> {
        let slot = Mutex::new(Slot {
            value: None,
            waiter: None,
        });
        let given = Condvar::new();
        Answer(Arc::new(Parts { slot, given }))
    }

    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.0.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn give(&self, value: T) {
        let mut slot = self.slot();
        slot.value = Some(value);
        let waiter = slot.waiter.take();
        drop(slot);
        self.0.given.notify_one();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    pub async fn get(&self) -> T {
        poll_fn(|task| {
            let mut slot = self.slot();
            match slot.value.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    slot.waiter = Some(task.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub fn wait(&self) -> T {
        loop {
            if let Some(value) = self.wait_until(None) {
                return value;
            }
        }
    }

    /// `None`: none was given until then. No end: it waits for as long as it takes.
    pub fn wait_until(&self, end: Option<Instant>) -> Option<T> {
        let mut slot = self.slot();
        loop {
            if let Some(value) = slot.value.take() {
                return Some(value);
            }
            let given = &self.0.given;
            slot = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => given.wait(slot).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return None,
                Some(left) => {
                    let waited = given.wait_timeout(slot, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
