//! What a process does once, before its first socket.

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock};
use std::thread;

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

/// What those above do at these moments, who have something in the run directory.
pub struct Hooks {
    pub in_child: fn(),
    pub at_exit: fn(),
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// There is one who does.
pub fn start_with(hooks: Hooks) {
    HOOKS.get_or_init(|| hooks);
    start();
}

extern "C" fn before_fork() {
    api::fork_prepare();
}

extern "C" fn in_parent() {
    api::forked();
}

extern "C" fn in_child() {
    api::fork_child();
    GENERATION.fetch_add(1, Ordering::Relaxed);
    if let Some(hooks) = HOOKS.get() {
        (hooks.in_child)();
    }
}

extern "C" fn at_exit() {
    if let Some(hooks) = HOOKS.get() {
        (hooks.at_exit)();
    }
    api::exiting();
}

/// Starts a thread of ours. The program's signal handlers run in the program's threads.
pub fn spawn_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let run = move || {
        block_signals();
        run();
    };
    thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(())
}

fn block_signals() {
    // SAFETY: a set is filled and then used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, null_mut());
    }
}
