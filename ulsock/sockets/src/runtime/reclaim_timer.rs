//! When memory that is not needed any more is looked for next (see `conn/reclaim`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use os::clock::coarse_ms;

/// Milliseconds between two looks. Of a ring it is asked whether it was used for so long.
pub const PAUSE: u64 = 1000;

os::process_wide! {
    /// Closed connections wait to be dropped.
    pub static RETIRED: AtomicBool = AtomicBool::new(false);
    /// When the next look is due; 0 when there is nothing to look after.
    pub static DUE: AtomicU64 = AtomicU64::new(0);
    pub static PAUSED: AtomicU64 = AtomicU64::new(PAUSE);
}
/// A closed connection waits to be dropped.
pub fn has_retired() {
    RETIRED.store(true, Ordering::SeqCst);
    wanted();
}

/// A look is wanted in so many milliseconds at the latest.
pub fn is_wanted_in(pause: u64) {
    let (due, next) = (DUE.load(Ordering::SeqCst), coarse_ms() + pause);
    if due == 0 || due > next {
        let _ = DUE.compare_exchange(due, next, Ordering::SeqCst, Ordering::Relaxed);
    }
}

pub fn wanted() {
    PAUSED.store(PAUSE, Ordering::Relaxed);
    let (due, next) = (DUE.load(Ordering::SeqCst), coarse_ms() + PAUSE);
    if due == 0 || due > next {
        let _ = DUE.compare_exchange(due, next, Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// Unless somebody has set another time meanwhile.
pub fn replace_due(old: u64, new: u64) -> u64 {
    match DUE.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed) {
        Ok(_) => new,
        Err(other) => other,
    }
}
