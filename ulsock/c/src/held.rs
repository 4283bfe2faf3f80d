//! Objects that C holds, lent to one call at a time.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

use crate::status::{Error, Result, Status};

/// An object of one thread.
pub struct Local<T> {
    thread: u64,
    value: RefCell<T>,
}

impl<T> Local<T> {
    pub fn new(value: T) -> Local<T> {
        Local {
            thread: this_thread(),
            value: RefCell::new(value),
        }
    }

    /// Lends the object to a call, which may wait.
    pub fn with<R>(&self, call: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        self.check()?;
        let mut value = self.value.try_borrow_mut().map_err(|_| Error::busy())?;
        call(&mut value)
    }

    /// Lends it to any number of calls.
    pub fn shared<R>(&self, call: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        self.check()?;
        let value = self.value.try_borrow().map_err(|_| Error::busy())?;
        call(&value)
    }

    fn check(&self) -> Result<()> {
        match self.thread == this_thread() {
            true => Ok(()),
            false => Err(Error::new(
                Status::WrongThread,
                "this object belongs to the thread that has made it",
            )),
        }
    }

    /// Whether no call is at work with it, and this is its thread.
    fn is_idle(&self) -> bool {
        self.check().is_ok() && self.value.try_borrow_mut().is_ok()
    }
}

/// What C holds of an object of one thread.
pub trait Handle {
    type Object;

    fn local(&self) -> &Local<Self::Object>;

    /// To a handler, which does not own it.
    fn is_lent(&self) -> bool {
        false
    }
}

/// Drops one that C is done with. If a call is still at work with it, or this is another thread, it is kept for good.
pub fn free<H: Handle>(held: Option<Box<H>>) {
    if let Some(held) = held
        && (held.is_lent() || !held.local().is_idle())
    {
        std::mem::forget(held);
    }
}

/// A number that no other thread has, nor will have.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static OWN: Cell<u64> = const { Cell::new(0) };
    }
    if OWN.get() == 0 {
        OWN.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    OWN.get()
}

/// An object that any thread may use, one at a time.
pub struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub fn new(value: T) -> Exclusive<T> {
        Exclusive(Mutex::new(value))
    }

    pub fn with<R>(&self, call: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        match self.0.try_lock() {
            Ok(mut value) => call(&mut value),
            Err(TryLockError::Poisoned(mut value)) => call(value.get_mut()),
            Err(TryLockError::WouldBlock) => Err(Error::busy()),
        }
    }
}
