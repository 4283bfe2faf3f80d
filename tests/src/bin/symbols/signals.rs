//! Handlers, by all ways to install one.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::sighandler_t;

use crate::Case;
use crate::scene::{Scene, call};

pub const CASES: &[Case] = &[
    ("sigaction", sigaction),
    ("__sigaction", sigaction),
    ("signal", signal),
    ("bsd_signal", signal),
    ("ssignal", signal),
    ("sysv_signal", signal),
    ("__sysv_signal", signal),
    ("sigset", signal),
    ("siginterrupt", siginterrupt),
    ("sigignore", sigignore),
    ("pthread_cancel", pthread_cancel),
    ("pthread_setcanceltype", pthread_setcanceltype),
];

const SIGNAL: c_int = libc::SIGUSR1;
static HANDLED: AtomicI32 = AtomicI32::new(0);

extern "C" fn handler(number: c_int) {
    HANDLED.fetch_add(number, Ordering::Relaxed);
}

fn raise(scene: &mut Scene) {
    // SAFETY: the signal has a handler or is ignored.
    unsafe { libc::raise(SIGNAL) };
    scene.note("handled", HANDLED.swap(0, Ordering::Relaxed));
}

fn address() -> sighandler_t {
    handler as extern "C" fn(c_int) as sighandler_t
}

fn sigaction(scene: &mut Scene, name: &'static str) {
    type Act = libc::sigaction;
    // SAFETY: all zero is an action.
    let (mut act, mut old): (Act, Act) = unsafe { std::mem::zeroed() };
    act.sa_sigaction = address();
    act.sa_flags = libc::SA_RESTART;
    for _ in 0..2 {
        call!(
            scene,
            name,
            fn(c_int, *const Act, *mut Act) -> c_int,
            SIGNAL,
            &raw const act,
            &raw mut old
        );
        scene.note(
            "old",
            (
                old.sa_sigaction == address(),
                old.sa_flags & libc::SA_RESTART,
            ),
        );
    }
    raise(scene);
    call!(
        scene,
        name,
        fn(c_int, *const Act, *mut Act) -> c_int,
        libc::SIGKILL,
        &raw const act,
        &raw mut old
    );
    call!(
        scene,
        name,
        fn(c_int, *const Act, *mut Act) -> c_int,
        777,
        &raw const act,
        &raw mut old
    );
}

fn signal(scene: &mut Scene, name: &'static str) {
    let old = call!(
        scene,
        name,
        fn(c_int, sighandler_t) -> sighandler_t,
        SIGNAL,
        address()
    );
    scene.note("old", old == libc::SIG_DFL);
    raise(scene);
    call!(
        scene,
        name,
        fn(c_int, sighandler_t) -> sighandler_t,
        SIGNAL,
        libc::SIG_IGN
    );
    raise(scene);
    call!(
        scene,
        name,
        fn(c_int, sighandler_t) -> sighandler_t,
        777,
        libc::SIG_IGN
    );
}

fn siginterrupt(scene: &mut Scene, name: &'static str) {
    // SAFETY: a handler of our own.
    unsafe { libc::signal(SIGNAL, address()) };
    for on in [1, 0] {
        call!(scene, name, fn(c_int, c_int) -> c_int, SIGNAL, on);
        // SAFETY: room for the action.
        let flags = unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(SIGNAL, std::ptr::null(), &mut old);
            old.sa_flags & libc::SA_RESTART
        };
        scene.note("restarts", flags);
    }
    raise(scene);
    call!(scene, name, fn(c_int, c_int) -> c_int, 777, 1);
}

fn sigignore(scene: &mut Scene, name: &'static str) {
    call!(scene, name, fn(c_int) -> c_int, SIGNAL);
    raise(scene);
    call!(scene, name, fn(c_int) -> c_int, 777);
}

/// Of a thread that waits for ever.
fn pthread_cancel(scene: &mut Scene, name: &'static str) {
    extern "C" fn wait(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: no pointers.
        unsafe { libc::pause() };
        std::ptr::null_mut()
    }
    // SAFETY: all zero is a thread's name; the call fills it in.
    let thread = unsafe {
        let mut thread = std::mem::zeroed();
        libc::pthread_create(&mut thread, std::ptr::null(), wait, std::ptr::null_mut());
        thread
    };
    call!(scene, name, fn(libc::pthread_t) -> c_int, thread);
    let mut status = std::ptr::null_mut();
    // SAFETY: the thread from above, which is joined once.
    unsafe { libc::pthread_join(thread, &mut status) };
    let status = status as isize;
    scene.note("status", status);
}

fn pthread_setcanceltype(scene: &mut Scene, name: &'static str) {
    for kind in [1, 0, 7] {
        let mut old = -1;
        call!(
            scene,
            name,
            fn(c_int, *mut c_int) -> c_int,
            kind,
            &raw mut old
        );
        scene.note("old", old);
    }
}
