//! Memory that is shared with the kernel. It gives out raw pointers, and references to what may lie in shared
//! memory, both checked against its end.
//!
//! This is not memmap2's, because engines inside programs have ports too: rustix goes straight to the kernel, while
//! memmap2 calls libc, which sets the program's errno. Nor has memmap2 anonymous memory that is shared.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::io::{self, Errno};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::shared_memory::{self, InSharedMemory};

/// Unmapped when dropped.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Map {}
// SAFETY: it is never changed; what lies in it is reached by raw pointers, or as `InSharedMemory`, which is `Sync`.
unsafe impl Sync for Map {}

const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Map {
    /// Memory of a socket.
    pub fn of(fd: impl AsFd, offset: u64, len: usize) -> io::Result<Map> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let base = unsafe { mmap(ptr::null_mut(), len, ACCESS, flags, fd, offset)? };
        Map::new(base.cast(), len)
    }

    /// Memory of our own, all of it there. Shared, so that a fork copies no page behind the kernel's
    /// back.
    pub fn anonymous(len: usize) -> io::Result<Map> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, ACCESS, flags)? };
        Map::new(base.cast(), len)
    }

    fn new(base: *mut u8, len: usize) -> io::Result<Map> {
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        Ok(Map { base, len })
    }

    /// Where `len` bytes from `offset` on are; panics if they are not all inside.
    #[inline]
    pub fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(len <= self.len && offset <= self.len - len);
        // SAFETY: inside the mapping, or at its very end.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// What lies at `offset`; panics if it is not all inside, or not aligned.
    #[inline]
    pub fn get<T: InSharedMemory>(&self, offset: usize) -> &T {
        let at = self.at(offset, size_of::<T>());
        assert!(at.cast::<T>().is_aligned());
        // SAFETY: inside the mapping, which can be read and written and lives as long as the reference; and aligned.
        unsafe { shared_memory::at(at) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: pointers into the mapping come from `self`, and their holders do not outlive it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
