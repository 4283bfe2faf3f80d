//! Mappings that are mostly holes, and must stay so when the program locks its memory.
//!
//! The kernel fills what is locked. So those of ours that are large are listed here, for `mlockall`
//! to spare them; and once the program has asked for the future to be locked too, new ones are made
//! in a way that fills nothing.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::BorrowedFd;
use rustix::io::{self, Errno};
use rustix::mm::{
    MapFlags, MlockFlags, MprotectFlags, ProtFlags, mlock_with, mmap, mmap_anonymous, mprotect,
    munlock, munmap,
};
use rustix::process::{Resource, getrlimit};

use super::ranges::Ranges;

/// Smaller ones may be filled.
const LEAST: usize = 64 << 10;
/// Large ones of a process at a time, about one for each process that it talks with.
static LARGE: Ranges<{ 16 << 10 }> = Ranges::new();

/// Whatever is mapped from now on is locked: counted, and perhaps filled.
static FUTURE_IS_LOCKED: AtomicBool = AtomicBool::new(false);

pub fn lock_future(locked: bool) {
    FUTURE_IS_LOCKED.store(locked, Ordering::Release);
}

pub fn is_future_locked() -> bool {
    FUTURE_IS_LOCKED.load(Ordering::Acquire)
}

/// Maps `len` bytes of a file, or of nothing, at an address of the kernel's choice.
pub fn map(
    file: Option<BorrowedFd<'_>>,
    len: usize,
    prot: ProtFlags,
    kind: MapFlags,
) -> io::Result<*mut u8> {
    let locked = is_future_locked();
    // What nobody may touch cannot be filled.
    let first = if locked { ProtFlags::empty() } else { prot };
    let flags = kind | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses the address, so no existing mapping is touched.
    let base = unsafe {
        match file {
            Some(file) => mmap(null_mut(), len, first, flags, file, 0),
            None => mmap_anonymous(null_mut(), len, first, flags),
        }
    }?;
    let listed = len < LEAST || LARGE.add(base as usize, len);
    if !listed || (locked && !open(base, len, prot)) {
        // SAFETY: mapped just now, and nobody knows of it.
        let _ = unsafe { unmap(base.cast(), len) };
        return Err(Errno::NOMEM);
    }
    Ok(base.cast())
}

/// Where nothing counts what is locked, what is touched will be; else the mapping is not locked any
/// more. Then it may be used.
fn open(base: *mut libc::c_void, len: usize, prot: ProtFlags) -> bool {
    let prot = MprotectFlags::from_bits_retain(prot.bits());
    let unlimited = getrlimit(Resource::Memlock).current.is_none();
    // SAFETY: a mapping of our own that nobody uses yet.
    unsafe {
        let done = match unlimited {
            true => mlock_with(base, len, MlockFlags::ONFAULT),
            false => munlock(base, len),
        };
        done.and_then(|()| mprotect(base, len, prot)).is_ok()
    }
}

/// # Safety
/// Made by [`map`] with this length, and nobody uses it any more.
pub unsafe fn unmap(base: *mut u8, len: usize) -> io::Result<()> {
    if len >= LEAST {
        LARGE.remove(base as usize);
    }
    // SAFETY: a mapping of this length that nobody uses any more, as the caller promises.
    unsafe { munmap(base.cast(), len) }
}

/// Begin and end of each, by address.
pub fn listed() -> Vec<(usize, usize)> {
    let mut all: Vec<_> = LARGE.all().map(|(base, len)| (base, base + len)).collect();
    all.sort_unstable();
    all
}
