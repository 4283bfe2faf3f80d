//! Deadlines: the next of them is set in a timer, in the reactor of whoever extracts. A deadline that is not earlier than the one that
//! is set wakes nobody, and one that nobody waits for any more goes quietly, too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::error::RequestError;
use super::fate::Fate;
use crate::timer::Timer;

/// By time; numbers tell those of the same time apart.
type Key = (Instant, u64);

#[derive(Default)]
pub struct Timers {
    due: RefCell<BTreeMap<Key, Rc<Fate>>>,
    numbers: Cell<u64>,
    timer: RefCell<Option<Timer>>,
    /// Who looks after them: it is there from the first deadline on.
    keeper: RefCell<Option<Waker>>,
}

/// Ends a call at its time, unless it is dropped before.
pub struct Deadline {
    timers: Rc<Timers>,
    key: Key,
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.timers.due.borrow_mut().remove(&self.key);
    }
}

impl Timers {
    /// An error is that there is no timer to be had.
    pub fn add(self: &Rc<Timers>, at: Instant, fate: &Rc<Fate>) -> io::Result<Deadline> {
        if self.timer.borrow().is_none() {
            let timer = Timer::new()?;
            *self.timer.borrow_mut() = Some(timer);
        }
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        let key = (at, number);
        self.due.borrow_mut().insert(key, fate.clone());
        let set = self.timer.borrow().as_ref().and_then(Timer::rings_at);
        if set.is_none_or(|set| at < set)
            && let Some(keeper) = self.keeper.take()
        {
            keeper.wake();
        }
        Ok(Deadline {
            timers: self.clone(),
            key,
        })
    }

    /// Ends what is due, and is woken when the next is.
    pub fn poll(&self, task: &Context<'_>) -> Poll<io::Result<()>> {
        *self.keeper.borrow_mut() = Some(task.waker().clone());
        loop {
            self.end_due(Instant::now());
            let next = self.due.borrow().first_key_value().map(|((at, _), _)| *at);
            let Some(next) = next else {
                return Poll::Pending;
            };
            let mut timer = self.timer.borrow_mut();
            let Some(timer) = &mut *timer else {
                return Poll::Pending;
            };
            if timer.rings_at().is_none_or(|set| next < set) {
                timer.set(next);
            }
            match timer.poll(task) {
                Poll::Ready(rung) => rung?,
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn end_due(&self, now: Instant) {
        loop {
            let first = {
                let mut due = self.due.borrow_mut();
                match due.first_entry() {
                    Some(entry) if entry.key().0 <= now => entry.remove(),
                    _ => return,
                }
            };
            first.end(RequestError::DeadlineExceeded);
        }
    }
}
