//! Descriptors by which a program passes our hooks, and what it does there we do not see: io_urings that we cannot look
//! into ([`crate::calls::uring`] says which), whose operations name a socket, and epoll sets that were made past libc (the crate
//! rustix does so), to which sockets are added in the same way. A process that has one keeps its sockets on kernel TCP.
//!
//! An io_uring is noticed when libc's `syscall` or liburing makes it. What is made by the instruction itself, or inherited, is
//! found out when a connection is about to be upgraded: at a few of the descriptors each time, so that it costs little
//! however many there are.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use crate::runtime::process;
use crate::runtime::upcalls;
use crate::state::table::{self, Slot};
use os::proc;
use rendezvous::reason::Reason;

/// Numbers looked at for the first connection: these things are made at the start of a program.
const FIRST: i32 = 64;
/// Numbers looked at for each further one, in turn.
const STEP: i32 = 8;
/// Above are connections, as a rule.
const END: i32 = 1024;

os::process_wide! {
    static UNSEEN: AtomicBool = AtomicBool::new(false);
    static NEXT: AtomicI32 = AtomicI32::new(0);
    /// The number of a set or an io_uring that was not in our table when it was looked at, and when that was.
    static SUSPECT: AtomicI32 = AtomicI32::new(NONE);
    static SUSPECTED_AT: AtomicU64 = AtomicU64::new(0);
}
const NONE: i32 = -1;
/// In ms. A thread that has made one may wait that long for its turn on a CPU before it tells us.
const PROVEN_AFTER: u64 = 100;

/// The process has an io_uring that we cannot look into, or not any more.
pub fn uring_is_unseen() {
    if process::is_on() && !UNSEEN.swap(true, Ordering::AcqRel) {
        (upcalls::get().return_all)(Reason::IoUring);
    }
}

/// Why the connections of this process must stay on the kernel, as far as can be seen cheaply.
pub fn found() -> Option<Reason> {
    if let Some(reason) = process::frozen_for() {
        return Some(reason);
    }
    // The programs of a unit test share one process: a set of another's is none that was made past us.
    if cfg!(test) {
        return None;
    }
    if let Some(reason) = suspected() {
        return Some(reason);
    }
    let begin = NEXT.load(Ordering::Relaxed);
    let end = if begin == 0 { FIRST } else { begin + STEP };
    NEXT.store(if end >= END { 1 } else { end }, Ordering::Relaxed);
    let (number, reason) = (begin..end).find_map(|fd| Some((fd, kind(fd)?)))?;
    SUSPECTED_AT.store(os::clock::coarse_ms(), Ordering::Relaxed);
    SUSPECT.store(number, Ordering::Relaxed);
    Some(reason)
}

/// There is a set or an io_uring that nobody has told us of. Another thread may have made it just now, and be about to:
/// nothing is upgraded meanwhile, and a later look decides.
fn suspected() -> Option<Reason> {
    let suspect = SUSPECT.load(Ordering::Relaxed);
    if suspect == NONE {
        return None;
    }
    let Some(reason) = kind(suspect) else {
        SUSPECT.store(NONE, Ordering::Relaxed);
        return None;
    };
    let since = SUSPECTED_AT.load(Ordering::Relaxed);
    if os::clock::coarse_ms() >= since + PROVEN_AFTER {
        (upcalls::get().return_all)(reason);
    }
    Some(reason)
}

/// What the descriptor would mean for our connections, if it is none of ours.
fn kind(fd: i32) -> Option<Reason> {
    if table::get(fd) != Slot::Foreign {
        return None;
    }
    // SAFETY: the number is only named; if nothing is open there, the question fails.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut room = [0_u8; 32];
    let len = proc::describe(socket, &mut room).ok()?;
    match &room[..len] {
        // Ours by now, if a thread was about to say so.
        _ if table::get(fd) != Slot::Foreign => None,
        proc::URING => Some(Reason::IoUring),
        b"anon_inode:[eventpoll]" => Some(Reason::Waiters),
        _ => None,
    }
}
