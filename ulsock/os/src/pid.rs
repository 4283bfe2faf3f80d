//! The number of this process, without a system call.

use std::sync::atomic::{AtomicU32, Ordering};

crate::process_wide! {
    static PID: AtomicU32 = AtomicU32::new(0);
}

/// Before anything asks for it: at load time, and in a forked child.
pub fn note() {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    PID.store(pid, Ordering::Relaxed);
}

#[inline]
pub fn get() -> u32 {
    PID.load(Ordering::Relaxed)
}
