//! The gate in front of the kernel socket, one per direction and side.
//!
//! While it is open, calls go to kernel TCP as they are, counted while they are inside (some of
//! them asleep, where no doorbell reaches them). Closing it takes the direction under management;
//! that works only while nobody is inside, and then the kernel's own byte counts are exact.

use super::sync::{AtomicU32, Ordering};

const CLOSED: u32 = 1 << 31;

/// In the socket record; all zero is an open, empty gate.
#[repr(transparent)]
pub struct Gate(AtomicU32);

#[cfg(not(loom))]
crate::in_shared_memory!(Gate { 0 });

impl Gate {
    pub fn new() -> Gate {
        Gate(AtomicU32::new(0))
    }

    /// A kernel call goes in; `false` when the gate is closed, and then it must not.
    #[inline]
    pub fn enter(&self) -> bool {
        if self.0.fetch_add(1, Ordering::Acquire) & CLOSED == 0 {
            return true;
        }
        self.0.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// A kernel call that went in comes out.
    #[inline]
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Closes the gate if nobody is inside.
    pub fn close(&self) -> bool {
        self.0
            .compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Opens it again: kernel TCP as it is.
    pub fn open(&self) {
        self.0.fetch_and(!CLOSED, Ordering::Release);
    }

    /// Nobody is inside.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) & !CLOSED == 0
    }

    #[inline]
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }
}

impl Default for Gate {
    fn default() -> Self {
        Gate::new()
    }
}
