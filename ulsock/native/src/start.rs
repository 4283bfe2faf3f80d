//! What a process does once, before its first socket.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use sockets::api;

/// Every way to a first socket comes by here.
pub fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        api::init();
        // SAFETY: functions without arguments, which stay loaded.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
            libc::atexit(at_exit);
        }
    });
}

/// How many forks lie between the process that was started and this one: what threads of its parent did nobody does here.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn before_fork() {
    api::fork_prepare();
}

extern "C" fn in_parent() {
    api::forked();
}

extern "C" fn in_child() {
    api::fork_child();
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn at_exit() {
    api::exiting();
}
