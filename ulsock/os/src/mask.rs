//! Signal masks as the kernel has them: one bit per signal.

use libc::{c_int, sigset_t, ucontext_t};

pub const fn bit(sig: c_int) -> u64 {
    1 << (sig - 1)
}

/// Raised by an instruction: while blocked they would end the process.
pub const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);
/// What cannot be blocked, and libc's own two (cancellation, setuid in all threads), which must not.
const NEVER: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP) | bit(32) | bit(33);
/// Everything that can wait.
pub const FULL: u64 = !(FAULTS | NEVER);

pub fn of(set: &sigset_t) -> u64 {
    // SAFETY: glibc's set is 128 bytes, and the kernel's are the first 8.
    unsafe { std::ptr::from_ref(set).cast::<u64>().read() }
}

pub fn set(mask: u64) -> sigset_t {
    // SAFETY: all zero is an empty set, and the kernel's bits are the first 8 bytes.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        (&raw mut set).cast::<u64>().write(mask);
        set
    }
}

/// What this thread blocks.
pub fn current() -> u64 {
    let mut now = set(0);
    // SAFETY: a valid pointer to a local set.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut now) };
    of(&now)
}

/// Sets this thread's mask and returns the one before.
pub fn replace(mask: u64) -> u64 {
    let new = set(mask);
    let mut old = set(0);
    // SAFETY: valid pointers to local sets.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &new, &mut old) };
    of(&old)
}

/// Blocks everything that can wait and returns the mask before.
pub fn block_all() -> u64 {
    let all = set(FULL);
    let mut old = set(0);
    // SAFETY: valid pointers to local sets.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut old) };
    of(&old)
}

/// The mask that will hold when a handler has returned. The kernel reads and writes 8 bytes of it.
pub fn in_context(context: &ucontext_t) -> u64 {
    of(&context.uc_sigmask)
}

pub fn put_in_context(context: &mut ucontext_t, mask: u64) {
    // SAFETY: a signal set begins with the kernel's eight bytes.
    unsafe { (&raw mut context.uc_sigmask).cast::<u64>().write(mask) };
}
