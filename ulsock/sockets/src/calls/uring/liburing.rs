//! `struct io_uring` of liburing, of which programs have a copy compiled in: its places have been the same since version 2.0,
//! with which the library's name became liburing.so.2. Others are not looked at.

use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;

use os::uring::{Sqe, SubmissionQueue, setup};

/// struct io_uring_sq.
#[derive(Clone, Copy)]
#[repr(C)]
struct Submission {
    head: *const AtomicU32,
    tail: *const AtomicU32,
    ring_mask: *const u32,
    ring_entries: *const u32,
    flags: *const u32,
    dropped: *const u32,
    array: *const AtomicU32,
    sqes: *mut Sqe,
    /// Entries between the two are the program's still, or ready to be put into the queue.
    sqe_head: u32,
    sqe_tail: u32,
    ring_size: usize,
    ring_pointer: usize,
    rest: [u32; 4],
}

/// struct io_uring.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Liburing {
    submission: Submission,
    completion: [usize; 11],
    flags: u32,
    ring_fd: i32,
    features: u32,
}

const _: () = {
    assert!(std::mem::offset_of!(Liburing, completion) == 104);
    assert!(std::mem::offset_of!(Liburing, flags) == 192);
    assert!(std::mem::offset_of!(Liburing, ring_fd) == 196);
};

impl Liburing {
    /// What the program's holds now.
    ///
    /// # Safety
    /// The program's own `struct io_uring`, of liburing 2.
    pub unsafe fn load(from: *const Liburing) -> Liburing {
        // SAFETY: liburing is about to read it, or has just done so; any bytes are numbers and addresses.
        unsafe { from.read() }
    }

    pub fn fd(&self) -> RawFd {
        self.ring_fd
    }

    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Do its functions that wait for a time submit all entries? On kernels before 5.11, which could not wait so.
    pub fn waits_by_entry(&self) -> bool {
        const FEAT_EXT_ARG: u32 = 1 << 8;
        self.features & FEAT_EXT_ARG == 0
    }

    /// Where the queue is, and which entries are not in it yet.
    ///
    /// # Safety
    /// It is in use: what it names is mapped.
    pub unsafe fn queue(&self) -> Option<(SubmissionQueue, Range<u32>)> {
        let it = &self.submission;
        if it.ring_entries.is_null() || it.head.is_null() || it.sqes.is_null() {
            return None;
        }
        // SAFETY: a word of the mapped queue.
        let count = unsafe { it.ring_entries.read() };
        if !count.is_power_of_two() {
            return None;
        }
        let queue = SubmissionQueue {
            head: it.head,
            tail: it.tail,
            array: match self.flags & setup::NO_SQARRAY {
                0 => it.array,
                _ => std::ptr::null(),
            },
            entries: it.sqes,
            count,
            entry_size: match self.flags & setup::SQE128 {
                0 => 1,
                _ => 2,
            },
        };
        Some((queue, it.sqe_head..it.sqe_tail))
    }
}
