//! The atomics of the protocol, so that loom can put its own in their place.

#[cfg(loom)]
pub use loom::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
pub use core::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

// Orders a holder's private stores for whoever takes over after its death; no thread is involved.
pub use core::sync::atomic::compiler_fence;
