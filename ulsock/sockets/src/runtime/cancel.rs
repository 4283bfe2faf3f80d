//! Thread cancellation: the calls that we carry are cancellation points as libc's are.
//!
//! A pending cancellation acts when such a call begins, and while it sleeps. libc then unwinds the
//! thread through our frames, which have nothing to clean up: at both points no lock is held and no
//! critical section open, and what a sleeper holds is in its bed, which the thread's end clears.
//! Inside a critical section it cannot act: other libc calls are cancellation points too.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, pthread_t};

use crate::runtime::thread::{self, Thread};
use os::backoff::Backoff;

pub type SetType = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;

unsafe extern "C" {
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DEFERRED and PTHREAD_CANCEL_ASYNCHRONOUS.
const DEFERRED: c_int = 0;
const ANYWHERE: c_int = 1;
/// PTHREAD_CANCEL_DISABLE.
const DISABLE: c_int = 1;

/// No critical section takes so long, unless its thread is stopped.
const LONGEST: Duration = Duration::from_secs(1);

os::process_wide! {
    static SET_TYPE: AtomicUsize = AtomicUsize::new(0);
    /// Some thread of this process has been cancelled at some time.
    static ANY: AtomicBool = AtomicBool::new(false);
}

/// Load time: libc's own `pthread_setcanceltype`, of which we hook the name.
pub fn init(set_type: SetType) {
    SET_TYPE.store(set_type as usize, Ordering::Relaxed);
}

/// Before `pthread_cancel`. Critical sections that begin from now on hold it off; the one that the
/// thread is in, if any, did not know that it must.
pub fn requested(thread: pthread_t) {
    ANY.store(true, Ordering::SeqCst);
    os::memory::barrier_in_all_threads();
    let (start, mut backoff) = (Instant::now(), Backoff::default());
    while thread::is_inside(thread) && start.elapsed() < LONGEST {
        backoff.pause();
    }
}

/// After the program's own `pthread_setcanceltype`.
pub fn type_changed(kind: c_int) {
    if let Some(me) = Thread::me() {
        me.cancel_anywhere
            .store(kind == ANYWHERE, Ordering::Relaxed);
    }
}

/// A cancellation point. Nothing may be held here: this call may not return.
#[inline]
pub fn point() {
    if ANY.load(Ordering::Relaxed) {
        // SAFETY: no arguments; if it unwinds, it finds frames without anything to clean up.
        unsafe { pthread_testcancel() };
    }
}

/// Sleeps by `call`, in which a cancellation acts at once, as libc's own calls do it.
pub fn asleep<T>(call: impl FnOnce() -> T) -> T {
    with_type(ANYWHERE, call)
}

/// Calls from within a call of libc's that may be cancelled at any instruction: ours is like any other.
pub fn deferred<T>(call: impl FnOnce() -> T) -> T {
    with_type(DEFERRED, call)
}

/// Makes a call during which no cancellation acts, for what it has begun must be ended.
pub fn disabled<T>(call: impl FnOnce() -> T) -> T {
    let before = set_state(DISABLE);
    let result = call();
    set_state(before);
    result
}

#[inline]
fn with_type<T>(kind: c_int, call: impl FnOnce() -> T) -> T {
    // Nobody could cancel it: libc leaves this out then, too.
    if thread::is_single() {
        return call();
    }
    let before = set_type(kind);
    let result = call();
    set_type(before);
    result
}

/// A critical section has begun.
#[inline]
pub fn hold_off(me: &Thread) {
    if ANY.load(Ordering::Relaxed) {
        begin(me);
    }
}

#[cold]
fn begin(me: &Thread) {
    if me.cancel_anywhere.load(Ordering::Relaxed) {
        set_type(DEFERRED);
    }
    me.cancel_state
        .store(set_state(DISABLE) + 1, Ordering::Relaxed);
}

/// It has ended; a thread that may be cancelled anywhere may end here.
#[inline]
pub fn allow(me: &Thread) {
    let state = me.cancel_state.load(Ordering::Relaxed);
    if state != 0 {
        end(me, state - 1);
    }
}

/// First the state, which then does not act yet: glibc (2.36) would end the thread with a status
/// other than PTHREAD_CANCELED.
#[cold]
fn end(me: &Thread, state: c_int) {
    me.cancel_state.store(0, Ordering::Relaxed);
    set_state(state);
    if me.cancel_anywhere.load(Ordering::Relaxed) {
        set_type(ANYWHERE);
    }
}

fn set_state(state: c_int) -> c_int {
    let mut before = state;
    // SAFETY: `before` is a live local.
    unsafe { pthread_setcancelstate(state, &mut before) };
    before
}

fn set_type(kind: c_int) -> c_int {
    let set = SET_TYPE.load(Ordering::Relaxed);
    let mut before = DEFERRED;
    if set != 0 {
        // SAFETY: stored by `init`; `before` is a live local.
        unsafe { std::mem::transmute::<usize, SetType>(set)(kind, &mut before) };
    }
    before
}
