//! What the guard of a connection counts, in its ring pair.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::runtime::process;
use crate::state::guard_policy::{EAGER, Mind, ORDINARY};
use rendezvous::config::Guarding;

/// In the connection's link, hence of this process alone.
pub struct Guard {
    pub events: AtomicU32,
    /// At which of them to think next.
    next: AtomicU32,
    /// Only tried: who finds it taken lets the other think.
    pub mind: Mutex<Mind>,
}

impl Guard {
    pub fn new() -> Guard {
        let temper = match process::config().guard {
            Guarding::Eager => &EAGER,
            Guarding::Off | Guarding::On => &ORDINARY,
        };
        Guard {
            events: AtomicU32::new(0),
            next: AtomicU32::new(1),
            mind: Mutex::new(Mind::new(temper)),
        }
    }

    /// Somebody has slept on a ring or was woken; or a call was the kernel's. An estimate.
    pub fn note(&self) {
        let events = self.events.load(Ordering::Relaxed).wrapping_add(1);
        self.events.store(events, Ordering::Relaxed);
    }

    pub fn is_due(&self) -> bool {
        let events = self.events.load(Ordering::Relaxed);
        events.wrapping_sub(self.next.load(Ordering::Relaxed)) as i32 >= 0
    }

    pub fn think_after(&self, events: u32) {
        let now = self.events.load(Ordering::Relaxed);
        self.next.store(now.wrapping_add(events), Ordering::Relaxed);
    }
}
