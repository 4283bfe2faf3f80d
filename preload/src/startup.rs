//! Load and unload, in order.
//!
//! The loader runs the constructors of the libraries that the program needs before ours, so hooks
//! may be called earlier than `load`: a real function is then looked up on first use, and `api`
//! answers `Bypass` until it has been initialised.

use crate::{
    cancellation, confinement, data, epoll, exec, files, fortify, go, lifecycle, limits, messages,
    numbers, options, plugins, process, readiness, signals, streams,
};
use libc::{c_int, c_void};
use sockets::api;
use std::ptr::null_mut;

/// Every hooked symbol, by the function that looks up its real counterpart. `hooks!` is the only
/// way to declare a hook and fills its group; a group that is missing here is a dead-code warning.
const GROUPS: &[&[fn()]] = &[
    cancellation::RESOLVE,
    confinement::RESOLVE,
    data::RESOLVE,
    epoll::RESOLVE,
    exec::RESOLVE,
    files::RESOLVE,
    fortify::RESOLVE,
    lifecycle::RESOLVE,
    limits::RESOLVE,
    messages::RESOLVE,
    numbers::RESOLVE,
    options::RESOLVE,
    plugins::RESOLVE,
    process::RESOLVE,
    readiness::RESOLVE,
    signals::RESOLVE,
    streams::RESOLVE,
];

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = unload;

unsafe extern "C" {
    fn __cxa_atexit(
        handler: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
    fn __cxa_at_quick_exit(handler: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
    static mut __dso_handle: c_void;
}

extern "C" fn at_exit(_: *mut c_void) {
    api::exiting();
}

extern "C" fn load() {
    // First all real functions: later a lookup could happen in a signal handler or a forked child,
    // where the loader's lock may be held by a thread that no longer exists.
    for resolve in GROUPS.iter().copied().flatten() {
        resolve();
    }
    cancellation::init();
    signals::adopt();
    numbers::take_restarts();
    api::init();
    go::serve();
    // SAFETY: a function of our own, which stays loaded. It runs after the program's own handlers.
    unsafe { __cxa_at_quick_exit(at_exit, &raw mut __dso_handle) };
}

/// The destructors of the program's other libraries, which may still want to send, come after ours.
/// They all run within one exit handler, and a handler that is registered meanwhile runs after it
/// (glibc's stdlib/exit.c starts its list over).
extern "C" fn unload() {
    // SAFETY: a function of our own, which stays loaded.
    let registered = unsafe { __cxa_atexit(at_exit, null_mut(), null_mut()) };
    if registered != 0 {
        api::exiting();
    }
}
