//! What the parts of an endpoint share: whether somebody extracts just now, how much more he wants, and in whose name is
//! sent.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

use super::frame::Class;

pub struct Driver {
    /// What each peer may have under way, in each class.
    pub window: usize,
    /// Somebody extracts: he also takes care of those who wait to send.
    driven: Cell<bool>,
    /// Bytes that handlers may still take.
    budget: Cell<usize>,
    taken: Cell<usize>,
    /// A message has begun, or bytes were taken.
    done_something: Cell<bool>,
    /// Handlers that were stopped by the budget.
    hungry: RefCell<Vec<Waker>>,
    /// Tasks that wait while somebody extracts: then they have to receive for themselves.
    waiters: RefCell<Vec<Waker>>,
    /// The class of the message whose handler runs.
    handling: Cell<Option<Class>>,
}

impl Driver {
    pub fn new(window: usize) -> Driver {
        Driver {
            window,
            driven: Cell::new(false),
            budget: Cell::new(0),
            taken: Cell::new(0),
            done_something: Cell::new(false),
            hungry: RefCell::default(),
            waiters: RefCell::default(),
            handling: Cell::new(None),
        }
    }

    pub fn is_driven(&self) -> bool {
        self.driven.get()
    }

    pub fn note_waiter(&self, task: &Context<'_>) {
        if !self.driven.get() {
            return;
        }
        let mut waiters = self.waiters.borrow_mut();
        if !waiters.iter().any(|known| known.will_wake(task.waker())) {
            waiters.push(task.waker().clone());
        }
    }

    /// An extraction begins.
    pub fn begin(&self, budget: usize) {
        self.driven.set(true);
        self.budget.set(budget);
        self.taken.set(0);
        self.done_something.set(false);
        let hungry = self.hungry.take();
        hungry.into_iter().for_each(Waker::wake);
    }

    /// It has ended: nothing is taken until the next.
    pub fn end(&self) {
        self.budget.set(0);
        self.driven.set(false);
        let waiters = self.waiters.take();
        waiters.into_iter().for_each(Waker::wake);
    }

    pub fn budget(&self) -> usize {
        self.budget.get()
    }

    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    #[inline]
    pub fn take(&self, bytes: usize) {
        self.budget.set(self.budget.get() - bytes);
        self.taken.set(self.taken.get() + bytes);
        self.done_something.set(true);
    }

    pub fn did_something(&self) {
        self.done_something.set(true);
    }

    pub fn has_done_something(&self) -> bool {
        self.done_something.get()
    }

    /// A handler waits for the next extraction.
    pub fn wait(&self, task: &Context<'_>) {
        self.hungry.borrow_mut().push(task.waker().clone());
    }

    /// Runs a handler of a message of this class.
    pub fn handle<T>(&self, class: Class, run: impl FnOnce() -> T) -> T {
        self.handling.set(Some(class));
        let done = run();
        self.handling.set(None);
        done
    }

    /// Of what is sent now.
    pub fn class(&self) -> Class {
        match self.handling.get() {
            None => Class::Request,
            Some(_) => Class::Reply,
        }
    }
}
