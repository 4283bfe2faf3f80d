//! The lock of the control state, which knows its owner, so that fork can handle it.

use std::sync::atomic::{AtomicPtr, Ordering};

use netstack::ring::SideLock;

use super::Control;
use crate::runtime::thread::{Critical, Thread};
use os::backoff::Backoff;

os::process_wide! {
    static CONTROL: AtomicPtr<Control> = AtomicPtr::new(std::ptr::null_mut());
    /// Guards `CONTROL`, and the making of all that a process has once.
    static LOCK: SideLock = SideLock::new();
}

/// This process has this control state from now on. Under the lock, or while there is one thread.
pub fn set(control: Control) {
    CONTROL.store(Box::into_raw(Box::new(control)), Ordering::Release);
}

/// The control lock, held within a critical section.
pub struct Locked {
    _critical: Critical,
}

impl Locked {
    pub fn wait() -> Option<Locked> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(locked) = Locked::take() {
                return Some(locked);
            }
            // Outside of the critical section: the owner may be waiting for everybody to leave theirs.
            let me = Thread::me()?;
            if LOCK.is_held_by(me.id()) {
                // Around fork, from a handler of the program's: it must do without.
                return None;
            }
            backoff.pause();
        }
    }

    /// `None` when somebody else is at it: the next call tries again.
    pub fn take() -> Option<Locked> {
        let critical = Critical::enter()?;
        LOCK.try_lock(critical.0.id()).ok()?;
        Some(Locked {
            _critical: critical,
        })
    }

    pub fn control(&mut self) -> Option<&mut Control> {
        // SAFETY: null or leaked by [`set`]; the lock makes this the only reference.
        unsafe { CONTROL.load(Ordering::Acquire).as_mut() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCK.unlock();
    }
}

/// Before fork: nobody else may be halfway through a change of the control state.
pub fn before_fork() {
    let Some(me) = Thread::me() else { return };
    let mut backoff = Backoff::default();
    while LOCK.try_lock(me.id()).is_err() {
        backoff.pause();
    }
}

pub fn unlock_after_fork() {
    if let Some(me) = Thread::me() {
        LOCK.unlock_if(me.id());
    }
}

/// In a forked child, which has only this thread: a control state of its own.
pub fn after_fork() {
    // SAFETY: null or leaked by [`set`]; the child has only this thread.
    let parents = unsafe { CONTROL.load(Ordering::Acquire).as_ref() };
    if let Some(control) = parents.and_then(Control::for_child) {
        set(control);
    }
}
