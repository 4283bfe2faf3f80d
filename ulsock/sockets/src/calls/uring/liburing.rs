//! `struct io_uring` of liburing, of which programs have a copy compiled in: its places have been the same since version 2.0,
//! with which the library's name became liburing.so.2. Others are not looked at.

use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use os::uring::{Cqe, Sqe, SubmissionQueue, setup};

/// struct io_uring_sq.
#[derive(Clone, Copy)]
#[repr(C)]
struct Submission {
    head: *const AtomicU32,
    tail: *const AtomicU32,
    ring_mask: *const u32,
    ring_entries: *const u32,
    flags: *const AtomicU32,
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

/// struct io_uring_cq.
#[derive(Clone, Copy)]
#[repr(C)]
struct Completion {
    head: *const AtomicU32,
    tail: *const AtomicU32,
    ring_mask: *const u32,
    ring_entries: *const u32,
    flags: *const u32,
    overflow: *const u32,
    cqes: *const Cqe,
    ring_size: usize,
    ring_pointer: usize,
    rest: [u32; 4],
}

/// struct io_uring.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Liburing {
    submission: Submission,
    completion: Completion,
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

    /// Completions that the program has not taken.
    ///
    /// # Safety
    /// It is in use: what it names is mapped.
    pub unsafe fn completions(&self) -> u32 {
        // SAFETY: a word of the mapped queue.
        let head = unsafe { (*self.completion.head).load(Relaxed) };
        // SAFETY: as the caller says.
        unsafe { self.completion_end() }.wrapping_sub(head)
    }

    /// Does the kernel hold completions back for which there was no room?
    ///
    /// # Safety
    /// As [`Liburing::completions`].
    pub unsafe fn has_overflown(&self) -> bool {
        const CQ_OVERFLOW: u32 = 1 << 1;
        // SAFETY: a word of the mapped queue.
        unsafe { (*self.submission.flags).load(Relaxed) & CQ_OVERFLOW != 0 }
    }

    /// The position of the next completion.
    ///
    /// # Safety
    /// As [`Liburing::completions`].
    pub unsafe fn completion_end(&self) -> u32 {
        // SAFETY: a word of the mapped queue.
        unsafe { (*self.completion.tail).load(Acquire) }
    }

    /// How many completions the queue has room for.
    ///
    /// # Safety
    /// As [`Liburing::completions`].
    pub unsafe fn completion_count(&self) -> u32 {
        // SAFETY: a word of the mapped queue.
        unsafe { self.completion.ring_entries.read() }
    }

    /// The completion at this position.
    ///
    /// # Safety
    /// As [`Liburing::completions`], and completions have 16 bytes.
    pub unsafe fn completion(&self, position: u32) -> Cqe {
        // SAFETY: a completion of the mapped queue, whose number of places its mask tells.
        unsafe {
            let at = position & self.completion.ring_mask.read();
            self.completion.cqes.add(at as usize).read_volatile()
        }
    }

    /// Says which entries the program has ready.
    ///
    /// # Safety
    /// The program's own `struct io_uring`, of liburing 2, in a call that may change it.
    pub unsafe fn set_unflushed(of: *mut Liburing, entries: Range<u32>) {
        // SAFETY: as the caller says.
        unsafe {
            (*of).submission.sqe_head = entries.start;
            (*of).submission.sqe_tail = entries.end;
        }
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
