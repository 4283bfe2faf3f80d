//! What this floor needs done by the floors above it. They say at load time how; until then nothing is done, for there is
//! nothing to do it to.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::ucontext_t;

use crate::runtime::sleep_state::HeldPlace;
use crate::runtime::way::Way;
use rendezvous::reason::Reason;

pub struct Upcalls {
    /// A sleeper gets up, or has left: what it held on a connection is free for others.
    pub let_go: fn(HeldPlace),
    /// The kernel call on this record, which was left by a jump, is over.
    pub kernel_call_ended: fn(*const (), Way),
    /// The same of one on the young connection with this entry.
    pub young_call_left: fn(*const (), Way),
    /// A call that kept the connection of this number was left.
    pub caller_left: fn(u32),
    /// A sleeper of this epoll set gets up; the same of a set that the kernel waits in.
    pub leave_set: fn(*const ()),
    pub end_doze: fn(*const ()),
    /// The lists of a `poll` that a handler has interrupted.
    pub clear_lists: fn(*mut ()),
    /// A handler has run that interrupted the thread here.
    pub restart: fn(&mut ucontext_t),
    /// Somebody has lain down: an engine in this process must be looked after by others.
    pub engine_takes_duty: fn(),
    /// A look at it by who spins; `false`: it could not look.
    pub engine_glances: fn() -> bool,
    /// All connections go back to the kernel, and stay there.
    pub return_all: fn(Reason),
    /// Somebody is about to wait for completions of this io_uring by its descriptor.
    pub uring_is_watched: fn(RawFd),
    /// A young connection needs its record.
    pub grow_up: fn(RawFd) -> Option<u32>,
}

const NONE: &Upcalls = &Upcalls {
    let_go: |_| {},
    kernel_call_ended: |_, _| {},
    young_call_left: |_, _| {},
    caller_left: |_| {},
    leave_set: |_| {},
    end_doze: |_| {},
    clear_lists: |_| {},
    restart: |_| {},
    engine_takes_duty: || {},
    engine_glances: || false,
    return_all: |_| {},
    uring_is_watched: |_| {},
    grow_up: |_| None,
};

os::process_wide! {
    static SET: AtomicPtr<Upcalls> = AtomicPtr::new(std::ptr::from_ref(NONE).cast_mut());
}

/// Load time.
pub fn set(upcalls: &'static Upcalls) {
    SET.store(std::ptr::from_ref(upcalls).cast_mut(), Ordering::Release);
}

#[inline]
pub fn get() -> &'static Upcalls {
    // SAFETY: `NONE`, or what `set` was given.
    unsafe { &*SET.load(Ordering::Acquire) }
}
