//! Whether there is something behind a lock: its owner looks here, each time, and takes the lock only if there is.
//!
//! Who puts something there raises the notice afterwards, and then looks whether the owner sleeps; the owner lowers it before it takes
//! what is there, and looks again before it sleeps. So nothing stays there unseen.

use crate::ring::sync::{AtomicU32, Ordering, fence};

pub struct Notice(AtomicU32);

impl Notice {
    pub fn new() -> Notice {
        Notice(AtomicU32::new(0))
    }

    /// After something was put there. Whether nobody had raised it before, so that the owner may not know of any.
    pub fn raise(&self) -> bool {
        let is_first = self.0.swap(1, Ordering::AcqRel) == 0;
        // Before a look whether the owner sleeps.
        fence(Ordering::SeqCst);
        is_first
    }

    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Before the owner takes what is there. Whether it was raised.
    pub fn lower(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) != 0
    }
}

impl Default for Notice {
    fn default() -> Notice {
        Notice::new()
    }
}
