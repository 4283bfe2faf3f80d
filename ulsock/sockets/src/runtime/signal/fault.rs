//! Faults at the program's pointers: SIGSEGV and SIGBUS are caught, so that a copy from or to bad
//! memory ([`os::access`]) is an error, as it is in the kernel; and faults in tables that somebody has truncated
//! ([`guarded`]). Every other fault is the program's.
//!
//! Nothing is caught before the process has a TCP connection or a listener: other programs keep their
//! signals as they are. From then on the trampoline is installed also while the program has no
//! handler. `sigaction` tells the program what it has set itself, and a fault that is not ours has the
//! default action by the kernel's own hand: with the siginfo, the registers and the core that it
//! would have had.
//!
//! Not caught: a thread that blocks these signals, which the kernel kills at a fault; and while the
//! program ignores them, for that is inherited by the next program, or has installed a handler by a
//! system call past libc.

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{
    REG_RIP, SA_ONSTACK, SA_RESTART, SA_SIGINFO, SIG_DFL, SIGBUS, SIGSEGV, c_int,
    sigaction as SigAction, siginfo_t, ucontext_t,
};

use super::{Action, HANDLERS, is_fault, real, trampoline};
use os::access;
use os::faults;
use os::guarded;
use os::mask;

/// libc's flag, which the libc crate lacks on this platform.
pub(super) const SA_RESTORER: c_int = 0x0400_0000;
/// The kernel raised it, for no address in particular (asm-generic/siginfo.h).
const SI_KERNEL: c_int = 0x80;

/// The signals of a bad pointer.
pub(super) const CAUGHT: u64 = mask::bit(SIGSEGV) | mask::bit(SIGBUS);

os::process_wide! {
    /// The process has connections: from now on both are caught, if the program lets us.
    static WANTED: AtomicBool = AtomicBool::new(false);
}

/// From the first connection or listener on.
pub fn catch() {
    let Some(real) = real().filter(|_| !WANTED.load(Ordering::Relaxed)) else {
        return;
    };
    // From here on what the program installs leaves ours in place.
    if WANTED.swap(true, Ordering::SeqCst) {
        return;
    }
    let caught = [SIGSEGV, SIGBUS].map(|sig| {
        // SAFETY: a zeroed sigaction is valid, and all live across the calls.
        unsafe {
            let (mut now, mut old): (SigAction, SigAction) =
                (std::mem::zeroed(), std::mem::zeroed());
            if real(sig, null(), &mut now) != 0 || now.sa_sigaction != SIG_DFL {
                return now.sa_sigaction == trampoline as *const () as usize;
            }
            let default = Action {
                flags: now.sa_flags,
                ..Action::of(&now)
            };
            HANDLERS[sig as usize].set(default);
            real(sig, &while_default(), &mut old);
            if old.sa_sigaction != SIG_DFL {
                // Another thread has installed something at this very moment: it stays.
                HANDLERS[sig as usize].set(Action::of(&old));
                real(sig, &old, null_mut());
            }
            old.sa_sigaction == SIG_DFL
        }
    });
    faults::set_caught(caught[0]);
    faults::set_bus_error_caught(caught[1]);
}

/// What is installed while the program has the default action: on the program's other stack, if it
/// has one, for the one in use may be short.
pub(super) fn while_default() -> SigAction {
    let none = Action {
        address: 0,
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTART,
        mask: 0,
    };
    none.installed()
}

/// Is the trampoline to be installed, although this is what the program wants?
pub(super) fn stays_caught(sig: c_int, wanted: &Action) -> bool {
    mask::bit(sig) & CAUGHT != 0 && wanted.address == SIG_DFL && WANTED.load(Ordering::SeqCst)
}

/// The program has this disposition now.
pub(super) fn disposed(sig: c_int, wanted: &Action) {
    if !WANTED.load(Ordering::SeqCst) {
        return;
    }
    let caught = wanted.address != libc::SIG_IGN;
    match sig {
        SIGSEGV => faults::set_caught(caught),
        SIGBUS => faults::set_bus_error_caught(caught),
        _ => {}
    }
}

/// The default action as the program has set it, or never has.
pub(super) fn tell_default(action: &Action, old: &mut SigAction) {
    old.sa_flags = action.flags;
    old.sa_mask = mask::set(action.mask);
    if action.flags & SA_RESTORER == 0 {
        old.sa_restorer = None;
    }
}

/// A fault in one of our tables: it is done again. One of our copies: the thread goes on where that says so.
///
/// # Safety
/// `info` and `context` are as the kernel gives them to a handler.
pub(super) unsafe fn fix_up(sig: c_int, info: *const siginfo_t, context: *mut ucontext_t) -> bool {
    // SAFETY: both are what the kernel gave the handler.
    unsafe {
        if sig == SIGBUS && is_fault(sig, info) && guarded::replace((*info).si_addr() as usize) {
            return true;
        }
        let at = &mut (*context).uc_mcontext.gregs[REG_RIP as usize];
        match access::fix_up(*at as usize).filter(|_| is_fault(sig, info)) {
            Some(instruction) => *at = instruction as i64,
            None => return false,
        }
    }
    true
}

/// The program has no handler. `true`: the signal is to be sent again. Else the instruction is done
/// again, and the kernel does, and says, what it would have at once.
///
/// # Safety
/// `info` is valid.
pub(super) unsafe fn act_by_default(sig: c_int, info: *const siginfo_t) -> bool {
    let address = HANDLERS[sig as usize].get().address;
    if mask::bit(sig) & CAUGHT == 0 || address != SIG_DFL {
        return true;
    }
    // SAFETY: a zeroed sigaction is the default action; `info` by contract.
    unsafe {
        if let Some(real) = real() {
            let default: SigAction = std::mem::zeroed();
            real(sig, &default, null_mut());
        }
        !is_fault(sig, info) || (*info).si_code == SI_KERNEL
    }
}
