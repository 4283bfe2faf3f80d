//! Signal handlers: all ways to install one come down to `sigaction`, which is `api`'s.
//!
//! libc's own `signal` and its relatives would call its internal sigaction; their flags and masks
//! are those of glibc's signal/ and sysdeps/posix/.

use crate::errno;
use libc::{
    EINVAL, SA_NODEFER, SA_RESETHAND, SA_RESTART, SIG_BLOCK, SIG_ERR, SIG_UNBLOCK, c_int,
    sighandler_t, sigset_t,
};
use sockets::api;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// SIG_HOLD of the System V functions.
const SIG_HOLD: sighandler_t = 2;

/// Signals for which `siginterrupt` was asked: `signal` then leaves SA_RESTART out.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

fn bit(sig: c_int) -> u64 {
    1_u64.checked_shl((sig - 1) as u32).unwrap_or(0)
}

fn only(sig: c_int) -> sigset_t {
    // SAFETY: a signal set is plain bits; an invalid number leaves it empty.
    unsafe {
        let mut set = zeroed();
        libc::sigaddset(&mut set, sig);
        set
    }
}

/// Installs a handler and returns the one before, as `signal` does.
unsafe fn install(sig: c_int, handler: sighandler_t, flags: c_int, mask: sigset_t) -> sighandler_t {
    if handler == SIG_ERR {
        errno::set(EINVAL);
        return SIG_ERR;
    }
    // SAFETY: a zeroed sigaction is valid, and both live across the call.
    unsafe {
        let (mut act, mut old): (libc::sigaction, libc::sigaction) = (zeroed(), zeroed());
        act.sa_sigaction = handler;
        act.sa_flags = flags;
        act.sa_mask = mask;
        match sigaction::hooked(sig, &act, &mut old) {
            0 => old.sa_sigaction,
            _ => SIG_ERR,
        }
    }
}

/// Load time: handlers that were installed before us, or past libc.
pub fn adopt() {
    api::signals(sigaction::real());
    for sig in 1..=libc::SIGRTMAX() {
        // SAFETY: a zeroed sigaction is valid; a handler that is there is installed once more.
        unsafe {
            let mut act: libc::sigaction = zeroed();
            let known = sigaction::real()(sig, null(), &mut act) == 0;
            if known && act.sa_sigaction > libc::SIG_IGN {
                sigaction::hooked(sig, &act, null_mut());
            }
        }
    }
}

hooks! {
    redhook fn sigaction(sig: c_int, act: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: the program's own arguments.
        unsafe { api::sigaction(sig, act, old, real()) }
    }

    /// BSD semantics, as glibc's.
    redhook fn signal(sig: c_int, handler: sighandler_t) -> sighandler_t {
        let restart = INTERRUPTING.load(Relaxed) & bit(sig) == 0;
        // SAFETY: the program's own handler.
        unsafe { install(sig, handler, if restart { SA_RESTART } else { 0 }, only(sig)) }
    }

    redhook fn __sysv_signal(sig: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the program's own handler; an empty set is all zeros.
        unsafe { install(sig, handler, SA_RESETHAND | SA_NODEFER, zeroed()) }
    }

    redhook fn siginterrupt(sig: c_int, interrupt: c_int) -> c_int {
        // SAFETY: a zeroed sigaction is valid, and it lives across both calls.
        unsafe {
            let mut act: libc::sigaction = zeroed();
            if sigaction::hooked(sig, null(), &mut act) < 0 {
                return -1;
            }
            if interrupt != 0 {
                INTERRUPTING.fetch_or(bit(sig), Relaxed);
                act.sa_flags &= !SA_RESTART;
            } else {
                INTERRUPTING.fetch_and(!bit(sig), Relaxed);
                act.sa_flags |= SA_RESTART;
            }
            sigaction::hooked(sig, &act, null_mut())
        }
    }

    redhook fn sigset(sig: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the sets and the sigaction live across the calls that fill them.
        unsafe {
            let (set, mut blocked): (sigset_t, sigset_t) = (only(sig), zeroed());
            let mut old: libc::sigaction = zeroed();
            if handler == SIG_HOLD {
                if libc::pthread_sigmask(SIG_BLOCK, &set, &mut blocked) != 0 || sigaction::hooked(sig, null(), &mut old) < 0 {
                    return SIG_ERR;
                }
            } else {
                old.sa_sigaction = install(sig, handler, 0, zeroed());
                if old.sa_sigaction == SIG_ERR || libc::pthread_sigmask(SIG_UNBLOCK, &set, &mut blocked) != 0 {
                    return SIG_ERR;
                }
            }
            if libc::sigismember(&blocked, sig) == 1 { SIG_HOLD } else { old.sa_sigaction }
        }
    }

    redhook fn sigignore(sig: c_int) -> c_int {
        // SAFETY: no handler; an empty set is all zeros.
        match unsafe { install(sig, libc::SIG_IGN, 0, zeroed()) } {
            SIG_ERR => -1,
            _ => 0,
        }
    }
}

aliases! {
    fn __sigaction(sig: c_int, act: *const libc::sigaction, old: *mut libc::sigaction) -> c_int = sigaction;
    fn bsd_signal(sig: c_int, handler: sighandler_t) -> sighandler_t = signal;
    fn ssignal(sig: c_int, handler: sighandler_t) -> sighandler_t = signal;
    fn sysv_signal(sig: c_int, handler: sighandler_t) -> sighandler_t = __sysv_signal;
}
