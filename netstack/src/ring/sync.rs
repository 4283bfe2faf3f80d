//! The atomics of the protocol, so that loom can put its own in their place.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

// Orders a holder's private stores for the holder that takes over after its death; no other thread is
// involved.
pub use core::sync::atomic::compiler_fence;

/// Publishes a cursor so that a following look at a tripwire cannot come before it. On x86 one
/// exchange is a store and a full barrier, and takes a third of the time of a store and `mfence`.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline]
pub fn publish(cursor: &AtomicU64, value: u64) {
    cursor.swap(value, Ordering::SeqCst);
}

/// Publishes a cursor so that a following look at a tripwire cannot come before it.
#[cfg(not(all(target_arch = "x86_64", not(loom))))]
pub fn publish(cursor: &AtomicU64, value: u64) {
    cursor.store(value, Ordering::Release);
    fence(Ordering::SeqCst);
}
