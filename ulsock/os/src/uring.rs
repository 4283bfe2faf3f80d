//! io_uring: its submission queue, as the program and the kernel share it.
//!
//! The queue lies in memory that the program writes. An entry is copied before it is looked at, and an index that the
//! program wrote is checked before it is used. Layouts: linux/io_uring.h.

use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::access;
use crate::raw;

/// Flags of io_uring_setup(2).
pub mod setup {
    pub const IOPOLL: u32 = 1 << 0;
    /// A thread of the kernel's takes the entries, whenever it likes.
    pub const SQPOLL: u32 = 1 << 1;
    pub const SQ_AFF: u32 = 1 << 2;
    pub const CQSIZE: u32 = 1 << 3;
    pub const CLAMP: u32 = 1 << 4;
    pub const SUBMIT_ALL: u32 = 1 << 7;
    pub const COOP_TASKRUN: u32 = 1 << 8;
    pub const SQE128: u32 = 1 << 10;
    /// One task submits and waits, no other.
    pub const SINGLE_ISSUER: u32 = 1 << 12;
    /// What has become ready is done, and completions come, only while that task waits for them.
    pub const DEFER_TASKRUN: u32 = 1 << 13;
    pub const NO_MMAP: u32 = 1 << 14;
    /// There is no descriptor, but an index that only this task knows.
    pub const REGISTERED_FD_ONLY: u32 = 1 << 15;
    pub const NO_SQARRAY: u32 = 1 << 16;
    /// The flags that are known, up to CQE_MIXED of Linux 6.18.
    pub const KNOWN: u32 = (1 << 19) - 1;
}

/// Flags of io_uring_enter(2).
pub mod enter {
    pub const GETEVENTS: u32 = 1 << 0;
    /// The ring is named by an index that only this task knows.
    pub const REGISTERED_RING: u32 = 1 << 4;
}

/// Flags of an entry.
pub mod sqe {
    pub const FIXED_FILE: u8 = 1 << 0;
    pub const IO_DRAIN: u8 = 1 << 1;
    pub const IO_LINK: u8 = 1 << 2;
    pub const IO_HARDLINK: u8 = 1 << 3;
    pub const ASYNC: u8 = 1 << 4;
    pub const CQE_SKIP_SUCCESS: u8 = 1 << 6;
    /// The next entry begins when this one has ended, if at all.
    pub const LINKS_NEXT: u8 = IO_LINK | IO_HARDLINK;
}

/// struct io_sqring_offsets.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SqOffsets {
    pub head: u32,
    pub tail: u32,
    pub ring_mask: u32,
    pub ring_entries: u32,
    pub flags: u32,
    pub dropped: u32,
    pub array: u32,
    pub resv1: u32,
    pub user_addr: u64,
}

/// struct io_cqring_offsets.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CqOffsets {
    pub words: [u32; 8],
    pub user_addr: u64,
}

/// struct io_uring_params, as the kernel has filled it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Params {
    pub sq_entries: u32,
    pub cq_entries: u32,
    pub flags: u32,
    pub sq_thread_cpu: u32,
    pub sq_thread_idle: u32,
    pub features: u32,
    pub wq_fd: u32,
    pub resv: [u32; 3],
    pub sq_off: SqOffsets,
    pub cq_off: CqOffsets,
}

/// struct io_uring_sqe. Names are those of its usual meaning; other operations use the places otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sqe {
    pub opcode: u8,
    pub flags: u8,
    pub ioprio: u16,
    pub fd: i32,
    pub off: u64,
    pub addr: u64,
    pub len: u32,
    pub op_flags: u32,
    pub user_data: u64,
    pub buf_index: u16,
    pub personality: u16,
    pub splice_fd_in: i32,
    pub rest: [u64; 2],
}

const _: () = assert!(size_of::<Sqe>() == 64 && size_of::<Params>() == 120);

/// struct io_uring_cqe.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cqe {
    pub user_data: u64,
    pub res: i32,
    pub flags: u32,
}

/// Where the program and the kernel hand entries over.
#[derive(Clone, Copy, Debug)]
pub struct SubmissionQueue {
    pub head: *const AtomicU32,
    pub tail: *const AtomicU32,
    /// Which entry is at which place of the queue; null: the one of the same number.
    pub array: *const AtomicU32,
    pub entries: *mut Sqe,
    /// Places, a power of two.
    pub count: u32,
    /// In units of 64 bytes.
    pub entry_size: usize,
}

// SAFETY: shared memory of the whole process, of which only atomics and copies are used.
unsafe impl Send for SubmissionQueue {}
// SAFETY: as above.
unsafe impl Sync for SubmissionQueue {}

impl SubmissionQueue {
    #[inline]
    pub fn head(&self) -> u32 {
        // SAFETY: a word of the queue, which is mapped as long as the ring is used.
        unsafe { (*self.head).load(Ordering::Acquire) }
    }

    /// What stands before it is the program's last word.
    #[inline]
    pub fn tail(&self) -> u32 {
        // SAFETY: a word of the queue, which is mapped as long as the ring is used.
        unsafe { (*self.tail).load(Ordering::Acquire) }
    }

    /// Where the entry of this position is; `None` if the kernel will find none there.
    #[inline]
    pub fn place(&self, position: u32) -> Option<*mut Sqe> {
        let at = position & (self.count - 1);
        let index = match self.array.is_null() {
            true => at,
            // SAFETY: the array has `count` words.
            false => unsafe { (*self.array.add(at as usize)).load(Ordering::Relaxed) },
        };
        (index < self.count).then(|| self.entry(index))
    }

    /// Puts entries into the queue up to this position, which lie at the places of their positions.
    pub fn publish(&self, from: u32, to: u32) {
        let mask = self.count - 1;
        if !self.array.is_null() {
            for at in 0..to.wrapping_sub(from).min(self.count) {
                let at = from.wrapping_add(at) & mask;
                // SAFETY: the array has `count` words.
                unsafe { (*self.array.add(at as usize)).store(at, Ordering::Relaxed) };
            }
        }
        // SAFETY: a word of the queue, which is mapped as long as the ring is used.
        unsafe { (*self.tail).store(to, Ordering::Release) };
    }

    /// The entry of this number.
    #[inline]
    pub fn entry(&self, index: u32) -> *mut Sqe {
        let index = (index & (self.count - 1)) as usize;
        // SAFETY: there are `count` entries of this size.
        unsafe { self.entries.add(index * self.entry_size) }
    }
}

/// Copies an entry.
///
/// # Safety
/// `place` is an entry of a queue that is mapped.
pub unsafe fn copy(place: *const Sqe) -> Sqe {
    // SAFETY: as the caller says; any bytes are an entry, and the program may write them meanwhile.
    unsafe { place.read_volatile() }
}

/// Its first word alone: operation, flags, priority and descriptor, in the order of their addresses.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub unsafe fn copy_beginning(place: *const Sqe) -> u64 {
    // SAFETY: as the caller says; entries are aligned to words.
    unsafe { place.cast::<u64>().read_volatile() }
}

/// io_uring_enter(2) without a wait: how many entries the kernel has taken.
pub fn submit(ring: RawFd, entries: u32, flags: u32) -> io::Result<u32> {
    let args = [ring as usize, entries as usize, 0, flags as usize, 0, 0];
    // SAFETY: the entries are the program's, or such as it may make itself; no memory is named beside them.
    unsafe { raw::syscall(libc::SYS_io_uring_enter, args) }.map(|taken| taken as u32)
}

/// Puts a completion with this name and result into an io_uring, without an entry of its own. Since Linux 6.13.
pub fn post(ring: RawFd, user_data: u64, result: u32) -> io::Result<()> {
    const REGISTER_SEND_MSG_RING: usize = 31;
    const MSG_RING: u8 = 40;
    let message = Sqe {
        opcode: MSG_RING,
        fd: ring,
        off: user_data,
        len: result,
        ..Sqe::default()
    };
    let none = -1_isize as usize;
    let args = [
        none,
        REGISTER_SEND_MSG_RING,
        &raw const message as usize,
        1,
        0,
        0,
    ];
    // SAFETY: the kernel reads the entry, and names no other memory.
    unsafe { raw::syscall(libc::SYS_io_uring_register, args) }.map(drop)
}

/// Has an eventfd counted up when there is something to hear of, or none (-1).
pub fn set_bell(ring: RawFd, bell: RawFd) -> io::Result<()> {
    const REGISTER_EVENTFD: usize = 4;
    const UNREGISTER_EVENTFD: usize = 5;
    let (operation, argument, count) = match bell {
        ..0 => (UNREGISTER_EVENTFD, 0, 0),
        _ => (REGISTER_EVENTFD, &raw const bell as usize, 1),
    };
    let args = [ring as usize, operation, argument, count, 0, 0];
    // SAFETY: the kernel reads one number.
    unsafe { raw::syscall(libc::SYS_io_uring_register, args) }.map(drop)
}

/// Overwrites an entry that the kernel has not taken yet; `false` if it is gone.
pub fn overwrite(place: *mut Sqe, entry: Sqe) -> bool {
    access::store(place, entry)
}

/// A second mapping of a ring's submission queue. It does not outlive the ring's last descriptor: whoever made it unmaps it
/// before. A forked child does not have it.
#[derive(Debug)]
pub struct MappedQueue {
    pub queue: SubmissionQueue,
    parts: [(usize, usize); 2],
}

const OFF_SQ_RING: u64 = 0;
const OFF_SQES: u64 = 0x1000_0000;

impl MappedQueue {
    /// Of a ring that was just made, with these parameters as the kernel has filled them.
    pub fn new(ring: BorrowedFd<'_>, params: &Params) -> io::Result<MappedQueue> {
        let count = params.sq_entries;
        if !count.is_power_of_two() || count > 1 << 20 {
            return Err(io::Errno::INVAL);
        }
        let entry_size = if params.flags & setup::SQE128 != 0 {
            2
        } else {
            1
        };
        let has_array = params.flags & setup::NO_SQARRAY == 0;
        let offsets = &params.sq_off;
        let mut parts = [(0, 0); 2];
        let (words, entries) = if params.flags & setup::NO_MMAP != 0 {
            // The program's own memory.
            (params.cq_off.user_addr as usize, offsets.user_addr as usize)
        } else {
            let end = match has_array {
                true => offsets.array as usize + count as usize * 4,
                false => offsets.head.max(offsets.tail) as usize + 4,
            };
            let size = count as usize * entry_size * size_of::<Sqe>();
            parts[0] = (map(ring, OFF_SQ_RING, end)?, end);
            match map(ring, OFF_SQES, size) {
                Ok(at) => parts[1] = (at, size),
                Err(error) => {
                    unmap(parts);
                    return Err(error);
                }
            }
            (parts[0].0, parts[1].0)
        };
        let word = |offset: u32| (words + offset as usize) as *const AtomicU32;
        let queue = SubmissionQueue {
            head: word(offsets.head),
            tail: word(offsets.tail),
            array: if has_array {
                word(offsets.array)
            } else {
                null_mut()
            },
            entries: entries as *mut Sqe,
            count,
            entry_size,
        };
        Ok(MappedQueue { queue, parts })
    }

    /// In the process that made it.
    pub fn unmap(self) {
        unmap(self.parts);
    }
}

fn map(ring: BorrowedFd<'_>, offset: u64, size: usize) -> io::Result<usize> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: the kernel chooses the address, so no existing mapping is touched.
    let at = unsafe { mmap(null_mut(), size, prot, flags, ring, offset) }?;
    // A child that has the descriptor too does not speak for its parent; and what it has mapped would keep the ring alive.
    // SAFETY: the mapping just made.
    let _ = unsafe { madvise(at, size, Advice::LinuxDontFork) };
    Ok(at as usize)
}

fn unmap(parts: [(usize, usize); 2]) {
    for (at, size) in parts.into_iter().filter(|(_, size)| *size > 0) {
        // SAFETY: exactly what `map` mapped, and its owner is at its end.
        let _ = unsafe { munmap(at as *mut _, size) };
    }
}

/// Can a NOP be told its result? Since Linux 6.10.
pub fn nop_tells_results() -> bool {
    const UNKNOWN: u8 = 0;
    crate::process_wide! {
        static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    }
    let known = ANSWER.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known == 1;
    }
    let uname = rustix::system::uname();
    let can = is_at_least(uname.release().to_bytes(), (6, 10));
    ANSWER.store(if can { 1 } else { 2 }, Ordering::Relaxed);
    can
}

fn is_at_least(release: &[u8], wanted: (u32, u32)) -> bool {
    let mut numbers = release
        .split(|byte| !byte.is_ascii_digit())
        .map(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    let version = (numbers.next().flatten(), numbers.next().flatten());
    matches!(version, (Some(major), Some(minor)) if (major, minor) >= wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert!(is_at_least(b"6.10.0", (6, 10)));
        assert!(is_at_least(b"6.18.44-fc-v445", (6, 10)));
        assert!(is_at_least(b"7.0", (6, 10)));
        assert!(!is_at_least(b"6.1.0-18-amd64", (6, 10)));
        assert!(!is_at_least(b"5.15.0", (6, 10)));
        assert!(!is_at_least(b"", (6, 10)));
    }
}
