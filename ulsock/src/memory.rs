//! Mappings of our own, and the barrier that makes unmapping safe.

use std::ptr::null_mut;

use rustix::mm::{mmap_anonymous, MapFlags, ProtFlags};

/// Zeroed memory of this process alone (a forked child gets a copy); pages cost nothing until touched.
pub fn reserve_private(size: usize) -> Option<*mut u8> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: an anonymous mapping at an address of the kernel's choice.
    let base =
        unsafe { mmap_anonymous(null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, flags) };
    base.ok().map(|base| base.cast())
}

/// Registers this process for [`barrier_in_all_threads`].
pub fn init() {
    // SAFETY: takes no pointers.
    unsafe {
        libc::syscall(
            libc::SYS_membarrier,
            libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
            0,
            0,
        )
    };
}

/// A full memory barrier in every running thread of this process.
pub fn barrier_in_all_threads() {
    // SAFETY: takes no pointers.
    unsafe {
        libc::syscall(
            libc::SYS_membarrier,
            libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED,
            0,
            0,
        )
    };
}
