//! Memory that is shared with the kernel. It gives out raw pointers, checked against its end.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::io::{self, Errno};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Unmapped when dropped.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and only raw pointers come out of it.
unsafe impl Send for Map {}
// SAFETY: as above.
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
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: whoever has pointers into it has them from us, and does not outlive us.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
