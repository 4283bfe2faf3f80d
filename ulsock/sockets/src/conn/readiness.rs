//! What this floor tells those above it: an epoll set must look again, a stand-in must take a socket's place. They say at load
//! time how.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::Handle;

pub struct Readiness {
    /// Something about the connection has changed: its sets look.
    pub touch: fn(Handle),
    /// The program has shut it down: the kernel wakes its sets, whatever they know.
    pub shut_down: fn(Handle),
    /// A send found no room and did not wait.
    pub send_blocked: fn(Handle),
    /// It has become managed; it is about to be plain again.
    pub convert: fn(u32),
    pub restore: fn(u32),
    /// This thread holds a set: whoever looked there answers later. `false`: it can be done at once.
    pub put_off: fn(Handle) -> bool,
    /// A socket takes its place at every number, with the bytes that are in the ring alone.
    pub stand_in: fn(Handle),
}

const NOBODY: &Readiness = &Readiness {
    touch: |_| {},
    shut_down: |_| {},
    send_blocked: |_| {},
    convert: |_| {},
    restore: |_| {},
    put_off: |_| false,
    stand_in: |_| {},
};

os::process_wide! {
    static TOLD: AtomicPtr<Readiness> = AtomicPtr::new(std::ptr::from_ref(NOBODY).cast_mut());
}

/// Load time.
pub fn tell(whom: &'static Readiness) {
    TOLD.store(std::ptr::from_ref(whom).cast_mut(), Ordering::Release);
}

#[inline]
pub fn told() -> &'static Readiness {
    // SAFETY: `NOBODY`, or what `tell` was given.
    unsafe { &*TOLD.load(Ordering::Acquire) }
}
