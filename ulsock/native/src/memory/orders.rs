//! What threads of the program ask of a thread of ours.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

pub struct Orders<T>(Mutex<(VecDeque<T>, Option<Waker>)>);

impl<T> Orders<T> {
    pub fn new() -> Orders<T> {
        Orders(Mutex::new((VecDeque::new(), None)))
    }

    pub fn push(&self, order: T) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.0.push_back(order);
        let waiter = parts.1.take();
        drop(parts);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Only one task waits here.
    pub async fn next(&self) -> T {
        poll_fn(|task| {
            let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match parts.0.pop_front() {
                Some(order) => Poll::Ready(order),
                None => {
                    parts.1 = Some(task.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
