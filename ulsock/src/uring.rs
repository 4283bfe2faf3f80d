//! io_uring: its operations name a descriptor and reach the kernel past all hooks. A process that
//! has a ring keeps its sockets on kernel TCP.
//!
//! A ring is noticed when libc's `syscall` or liburing makes it. Who makes the system call by hand,
//! or inherits a ring, is found out when a connection is about to be upgraded: at a few of the
//! descriptors each time, so that it costs little however many there are.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::process;
use crate::sys::proc;
use crate::table::{self, Slot};

/// Numbers looked at for the first connection: rings are made at the start of a program.
const FIRST: i32 = 64;
/// Numbers looked at for each further one, in turn.
const STEP: i32 = 8;
/// Above are connections, as a rule.
const END: i32 = 1024;

static MADE: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicI32 = AtomicI32::new(0);

/// The process has made a ring.
pub fn made() {
    if process::is_on() && !MADE.swap(true, Ordering::AcqRel) {
        crate::inherit::before_io_uring();
    }
}

/// Has this process a ring, as far as can be seen cheaply?
pub fn found() -> bool {
    if MADE.load(Ordering::Acquire) {
        return true;
    }
    let begin = NEXT.load(Ordering::Relaxed);
    let end = if begin == 0 { FIRST } else { begin + STEP };
    NEXT.store(if end >= END { 1 } else { end }, Ordering::Relaxed);
    let found = (begin..end).any(is_ring);
    if found {
        made();
    }
    found
}

fn is_ring(fd: i32) -> bool {
    const NAME: &[u8] = b"anon_inode:[io_uring]";
    if table::get(fd) != Slot::Foreign {
        return false;
    }
    // SAFETY: the number is only named; if nothing is open there, the question fails.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut room = [0_u8; 32];
    proc::describe(fd, &mut room).is_ok_and(|len| room[..len] == *NAME)
}
