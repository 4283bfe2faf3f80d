//! One after the other, in the order in which they came: handlers of one importer's messages, which run at the same time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

#[derive(Default)]
pub struct Turns {
    given: Cell<u64>,
    now: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
}

impl Turns {
    /// The place behind all others.
    pub fn enter(self: &Rc<Turns>) -> Turn {
        let number = self.given.get();
        self.given.set(number + 1);
        Turn {
            turns: self.clone(),
            number,
        }
    }
}

/// Over when it is dropped, which is done in its turn.
pub struct Turn {
    turns: Rc<Turns>,
    number: u64,
}

impl Turn {
    pub async fn come(&self) {
        poll_fn(|task| {
            if self.turns.now.get() == self.number {
                return Poll::Ready(());
            }
            let waker = task.waker().clone();
            self.turns.waiting.borrow_mut().insert(self.number, waker);
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.number + 1;
        self.turns.now.set(next);
        let waiter = self.turns.waiting.borrow_mut().remove(&next);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}
