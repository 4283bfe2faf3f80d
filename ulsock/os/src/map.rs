//! A shared file mapping that is unmapped when dropped.
//!
//! Gives out raw pointers only: other processes write this memory, so no reference or slice to it
//! may ever be formed. Whoever maps a file must first know that nobody can shrink it (SIGBUS), or
//! [guard](super::guarded) it.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::{self, Errno};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise};

use super::mapped;
use super::sparse;

/// What this process may do with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// `len` bytes of a file, shared with every other process that maps it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and only raw pointers come out of it.
unsafe impl Send for Mapping {}
// SAFETY: a mapping is the same for all threads, and only raw pointers come out of it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `fd`; kept out of core dumps.
    pub fn new(fd: BorrowedFd<'_>, len: usize, access: Access) -> io::Result<Mapping> {
        let prot = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let base = sparse::map(Some(fd), len, prot, MapFlags::SHARED)?;
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        mapped::add(len);
        let mapping = Mapping { base, len };
        // Only a wish: a kernel without it still maps.
        let _ = mapping.advise(0, len, Advice::LinuxDontDump);
        Ok(mapping)
    }

    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub fn size(&self) -> usize {
        self.len
    }

    /// Advises about a range that must begin at a page and lie inside the mapping.
    pub fn advise(&self, offset: usize, len: usize, advice: Advice) -> io::Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::INVAL)?;
        if end > self.len {
            return Err(Errno::INVAL);
        }
        // SAFETY: the range lies inside our own mapping, to which no Rust reference exists.
        unsafe { madvise(self.base.as_ptr().add(offset).cast(), len, advice) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; the owner's raw pointers end with it.
        if unsafe { sparse::unmap(self.base.as_ptr(), self.len) }.is_ok() {
            mapped::remove(self.len);
        }
    }
}
