//! A test aid: carriers change at random moments (`ULSOCK_CHAOS`). Off, it costs one load.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use netstack::ring::RxState;

use crate::conn::Conn;
use crate::process;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

static ON: AtomicBool = AtomicBool::new(false);

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

/// The receiver changes its mind about carriers.
#[cold]
pub fn wish(conn: &Conn<'_>, state: &mut RxState) {
    let ring = random() & 1 == 0 && conn.may_use_ring();
    let slots = conn.receiver(state).wish(ring);
    conn.link.ring(&conn.link.rx_shared().room.space, slots);
}

/// xorshift, seeded by the thread's id: good enough to be at random moments.
fn random() -> u64 {
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
