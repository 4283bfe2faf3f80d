//! Test aids: carriers change at random moments (`ULSOCK_CHAOS`), sleeps on rings end late
//! (`ULSOCK_DRAG`) or begin late (`ULSOCK_LATE`), fail-overs end in death (`ULSOCK_DIE`). Off, each costs
//! one load.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;
use rustix::time::Timespec;

use crate::runtime::process;
use rendezvous::config::{Drag, Step};

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

os::process_wide! {
    static ON: AtomicBool = AtomicBool::new(false);
}

/// Load time.
pub fn init() {
    ON.store(process::config().chaos != 0, Ordering::Relaxed);
}

#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Shall something happen at this call?
#[inline]
pub fn strikes() -> bool {
    is_on() && random() % 1000 < u64::from(process::config().chaos)
}

/// After a sleep on a ring, in no critical section.
#[inline]
pub fn drag() {
    if let Some(drag) = process::config().drag {
        dawdle(drag);
    }
}

#[cold]
fn dawdle(drag: Drag) {
    os::process_wide! {
        static FIRST: AtomicU64 = AtomicU64::new(0);
    }
    let now = os::clock::coarse_ms();
    let first = match FIRST.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => now,
        Err(first) => first,
    };
    if now - first < drag.ms.into() {
        pause(drag.us);
    }
}

/// Between the last look at a ring and the arming of its tripwire: what happens there must not be missed.
#[inline]
pub fn be_late() {
    match process::config().late {
        0 => {}
        us => pause(us),
    }
}

#[cold]
fn pause(us: u32) {
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(us.min(999_999)) * 1000,
    };
    let _ = rustix::thread::nanosleep(&time);
}

/// After a step of a fail-over.
pub fn die_after(step: Step) {
    if process::config().die == Some(step) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    }
}

/// xorshift, seeded by the thread's id: good enough to be at random moments.
pub fn random() -> u64 {
    let seed = || {
        0x9e37_79b9_7f4a_7c15 ^ u64::from(rustix::thread::gettid().as_raw_nonzero().get() as u32)
    };
    let mut x = STATE.get();
    if x == 0 {
        x = seed();
    }
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    STATE.set(x);
    x
}
