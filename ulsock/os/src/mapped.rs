//! How much this library has mapped: the kernel counts it against limits that the program sets, and so they are raised by
//! as much.

use std::sync::atomic::{AtomicU64, Ordering};

crate::process_wide! {
    /// Bytes that we have mapped: all, and those that are private and count as data as well.
    static ALL: AtomicU64 = AtomicU64::new(0);
    static PRIVATE: AtomicU64 = AtomicU64::new(0);
}

pub fn add(size: usize) {
    ALL.fetch_add(size as u64, Ordering::Relaxed);
}

pub fn add_private(size: usize) {
    add(size);
    PRIVATE.fetch_add(size as u64, Ordering::Relaxed);
}

pub fn remove(size: usize) {
    ALL.fetch_sub(size as u64, Ordering::Relaxed);
}

/// Bytes of all mappings.
pub fn all() -> u64 {
    ALL.load(Ordering::Relaxed)
}

/// Bytes of the private ones.
pub fn private() -> u64 {
    PRIVATE.load(Ordering::Relaxed)
}
