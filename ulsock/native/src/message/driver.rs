//! What the parts of an endpoint share: whether somebody extracts just now, how much more he wants, and in whose name is
//! sent.

use std::cell::{Cell, RefCell};
use std::task::Context;

use super::credit::Class;
use super::wakers::Wakers;

pub struct Driver {
    /// What each peer may have under way, in each class.
    pub window: usize,
    /// Somebody extracts: he also takes care of those who wait to send.
    driven: Cell<bool>,
    over: Cell<bool>,
    /// Bytes that handlers may still take.
    budget: Cell<usize>,
    taken: Cell<usize>,
    /// A message has begun, or bytes were taken.
    done_something: Cell<bool>,
    /// Handlers that were stopped by the budget.
    hungry: RefCell<Wakers>,
    /// Extractions one after the other.
    rounds: Cell<u32>,
    /// Tasks that wait while somebody extracts: then they have to receive for themselves.
    waiters: RefCell<Wakers>,
    /// The class of the message whose handler runs.
    handling: Cell<Option<Class>>,
}

impl Driver {
    pub fn new(window: usize) -> Driver {
        Driver {
            window,
            driven: Cell::new(false),
            over: Cell::new(false),
            budget: Cell::new(0),
            taken: Cell::new(0),
            done_something: Cell::new(false),
            hungry: RefCell::default(),
            rounds: Cell::new(0),
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
        self.waiters.borrow_mut().add(task.waker());
    }

    /// The endpoint is gone: nobody will extract again.
    pub fn ends(&self) {
        self.over.set(true);
        let hungry = self.hungry.take();
        hungry.wake();
    }

    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// An extraction begins.
    pub fn begin(&self, budget: usize) {
        self.driven.set(true);
        self.budget.set(budget);
        self.taken.set(0);
        self.done_something.set(false);
        let hungry = self.hungry.take();
        hungry.wake();
    }

    /// It has ended: nothing is taken until the next.
    pub fn end(&self) {
        self.budget.set(0);
        self.driven.set(false);
        let waiters = self.waiters.take();
        waiters.wake();
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
        self.hungry.borrow_mut().add(task.waker());
    }

    /// Whether the next extraction may follow at once. Not always: a thread has other tasks.
    pub fn may_go_on(&self) -> bool {
        const ROUNDS: u32 = 16;
        self.rounds.set((self.rounds.get() + 1) % ROUNDS);
        self.rounds.get() != 0
    }

    /// Runs a handler of a message of this class.
    pub fn handle<T>(&self, class: Class, run: impl FnOnce() -> T) -> T {
        /// Also if the handler panics.
        struct End<'a>(&'a Cell<Option<Class>>);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.set(None);
            }
        }
        self.handling.set(Some(class));
        let _end = End(&self.handling);
        run()
    }

    /// Of what is sent now.
    pub fn class(&self) -> Class {
        match self.handling.get() {
            None => Class::Request,
            Some(_) => Class::Reply,
        }
    }
}
