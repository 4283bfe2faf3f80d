//! What may lie in memory that somebody else writes at the same time: another process, or the kernel.
//!
//! The other writer may be hostile: any byte can change at any time, to anything. So a reference is made only to
//! a type that implements [`InSharedMemory`]; bytes that are no such type (the contents of rings, frames) are
//! reached by raw pointers alone, for the length of one copy (`ring::memory`).

use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

/// A type that may lie in shared memory.
///
/// `in_shared_memory!` implements it for a struct, and has the compiler check the fields.
///
/// # Safety
/// Any pattern of bits is a value of the type, and every byte of it that is not padding belongs to an atomic integer, or
/// to an `UnsafeCell` that a lock beside it protects: a reference then promises nothing that another writer could
/// break. The type has no pointer, and no destructor that anything depends on.
pub unsafe trait InSharedMemory: Sync {}

macro_rules! integers {
    ($($atomic:ty),*) => { $(
        // SAFETY: an atomic integer, which has no padding; each pattern of bits is a number.
        unsafe impl InSharedMemory for $atomic {}
    )* };
}

integers!(
    AtomicI32,
    AtomicU8,
    AtomicU16,
    AtomicU32,
    AtomicU64,
    AtomicUsize
);

// SAFETY: its elements are all that it consists of.
unsafe impl<T: InSharedMemory, const N: usize> InSharedMemory for [T; N] {}

/// Implements [`InSharedMemory`] for a struct all of whose fields implement it; all of them have to be named.
///
/// ```
/// struct Cursor {
///     position: core::sync::atomic::AtomicU64,
/// }
/// netstack::in_shared_memory!(Cursor { position });
/// ```
///
/// A plain number may not lie there, since a reference to it promises that nobody changes it:
///
/// ```compile_fail
/// struct Cursor {
///     position: u64,
/// }
/// netstack::in_shared_memory!(Cursor { position });
/// ```
#[macro_export]
macro_rules! in_shared_memory {
    ($name:ident { $($field:tt),+ $(,)? }) => {
        // SAFETY: the function below compiles only if these are all fields, and each of them may lie in shared memory.
        unsafe impl $crate::shared_memory::InSharedMemory for $name {}

        const _: fn(&$name) = |it| {
            fn may_lie_there<T: $crate::shared_memory::InSharedMemory>(_: &T) {}
            let $name { $($field: _),+ } = it;
            $(may_lie_there(&it.$field);)+
        };
    };
}

/// What lies at `at`.
///
/// # Safety
/// `at` is aligned for a `T`, and as many bytes from there on are mapped, readable, and writable if the type is ever
/// written, for as long as `'a`.
#[inline(always)]
pub unsafe fn at<'a, T: InSharedMemory>(at: *const u8) -> &'a T {
    // SAFETY: mapped and aligned, as the caller promises; and a `T` allows everybody to write it (`InSharedMemory`).
    unsafe { &*at.cast::<T>() }
}
