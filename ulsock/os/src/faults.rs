//! Which faults are caught in this process. The handler that catches them sets these words; those who touch memory
//! that may not be there ask.

use std::sync::atomic::{AtomicBool, Ordering};

crate::process_wide! {
    /// SIGSEGV and SIGBUS at the program's pointers.
    static BAD_POINTER: AtomicBool = AtomicBool::new(false);
    static BUS_ERROR: AtomicBool = AtomicBool::new(false);
}

/// Is a bad pointer an error, in a thread that does not block these signals?
#[inline]
pub fn are_caught() -> bool {
    BAD_POINTER.load(Ordering::Relaxed)
}

/// Is a SIGBUS caught, in a thread that does not block it?
pub fn is_bus_error_caught() -> bool {
    BUS_ERROR.load(Ordering::Relaxed)
}

pub fn set_caught(caught: bool) {
    BAD_POINTER.store(caught, Ordering::Release);
}

pub fn set_bus_error_caught(caught: bool) {
    BUS_ERROR.store(caught, Ordering::Release);
}
