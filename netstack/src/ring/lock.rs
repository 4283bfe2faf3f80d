//! The lock of one side of one direction, shared by threads and forked holders.
//!
//! It knows its owner, so that a holder that was killed inside can be found out and its lock taken
//! over: publishing a cursor is always the last step, so what it left behind is consistent. It is
//! never held across a sleep.

use super::sync::{AtomicU32, Ordering};

/// In the socket record; zero is free, anything else the owner's thread id.
#[repr(transparent)]
pub struct SideLock(AtomicU32);

#[cfg(not(loom))]
crate::in_shared_memory!(SideLock { 0 });

impl SideLock {
    #[cfg(loom)]
    pub fn new() -> SideLock {
        SideLock(AtomicU32::new(0))
    }

    #[cfg(not(loom))]
    pub const fn new() -> SideLock {
        SideLock(AtomicU32::new(0))
    }

    /// `Err` names the owner.
    #[inline]
    pub fn try_lock(&self, me: u32) -> Result<(), u32> {
        match self
            .0
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Ok(()),
            Err(owner) => Err(owner),
        }
    }

    /// Without a locked instruction, for a caller that knows that nobody else can take it.
    #[inline]
    pub fn try_lock_alone(&self, me: u32) -> Result<(), u32> {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                self.0.store(me, Ordering::Relaxed);
                Ok(())
            }
            owner => Err(owner),
        }
    }

    /// Takes over from an owner that is known to be dead.
    pub fn take_over(&self, dead: u32, me: u32) -> bool {
        self.0
            .compare_exchange(dead, me, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    pub fn is_held_by(&self, me: u32) -> bool {
        self.0.load(Ordering::Relaxed) == me
    }

    /// Lets go of it if `me` holds it.
    pub fn unlock_if(&self, me: u32) {
        let _ = self
            .0
            .compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed);
    }

    #[inline]
    pub fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Default for SideLock {
    fn default() -> Self {
        SideLock::new()
    }
}
