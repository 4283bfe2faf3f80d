//! Handlers that came inside a critical section, and their calls at its end.
//!
//! A handler that is put off leaves its thread with all signals blocked, so that later ones wait in
//! the kernel, in their order. At the end of the section it is called as the kernel would have: with
//! its mask, its siginfo, the interrupted registers, and on its own stack.

use std::cell::UnsafeCell;
use std::mem::zeroed;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_int, siginfo_t, ucontext_t};

use super::{handler_mask, run, wants_own_stack};
use os::mask;
use os::raw;

/// The kernel delivers several at once if they were pending together: each has its own frame.
const MOST_DEFERRED: usize = 8;

#[derive(Default)]
pub struct Deferred {
    count: AtomicUsize,
    waiting: [UnsafeCell<DeferredSignal>; MOST_DEFERRED],
}

type Registers = [i64; 23];

/// What the kernel told about one signal.
#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
struct DeferredSignal {
    info: Info,
    registers: Registers,
    mask: u64,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Info([u8; size_of::<siginfo_t>()]);

impl Default for Info {
    fn default() -> Self {
        Info([0; size_of::<siginfo_t>()])
    }
}

// SAFETY: only the owning thread and handlers that interrupt it touch the cells.
unsafe impl Sync for Deferred {}

impl Deferred {
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Keeps the signal for later. Without room for it the kernel keeps it.
    ///
    /// # Safety
    /// Called by a handler with what the kernel gave it.
    pub unsafe fn put(&self, info: *const siginfo_t, context: *mut ucontext_t) -> bool {
        // From here on no other handler comes: those that came before have been put off entirely.
        mask::block_all();
        // SAFETY: both are what the kernel gave the handler; the cell is beyond those in use.
        unsafe {
            let context = &mut *context;
            let before = mask::in_context(context);
            mask::put_in_context(context, before | mask::FULL);
            let at = self.count.load(Ordering::Relaxed);
            let Some(cell) = self.waiting.get(at) else {
                send_again(info);
                return true;
            };
            *cell.get() = DeferredSignal {
                info: *info.cast::<Info>(),
                registers: context.uc_mcontext.gregs,
                mask: before,
            };
            self.count.store(at + 1, Ordering::Relaxed);
        }
        true
    }

    /// Outside of any critical section, with all signals blocked: calls the handlers in the order in
    /// which the kernel would have. One that jumps away takes those after it along, as there.
    #[cold]
    pub fn deliver(&self) {
        let mut list = [DeferredSignal::default(); MOST_DEFERRED];
        let count = self.count.load(Ordering::Relaxed);
        for (place, cell) in list.iter_mut().zip(&self.waiting[..count]) {
            // SAFETY: filled by `put`; signals are blocked, so none is added now.
            *place = unsafe { *cell.get() };
        }
        self.count.store(0, Ordering::Relaxed);
        list[..count].iter_mut().for_each(DeferredSignal::call);
    }
}

impl DeferredSignal {
    fn call(&mut self) {
        let info = (&raw mut self.info).cast::<siginfo_t>();
        // SAFETY: all zero is a valid context: no floating point state, no other stack.
        let mut context: ucontext_t = unsafe { zeroed() };
        context.uc_mcontext.gregs = self.registers;
        mask::put_in_context(&mut context, self.mask);
        // SAFETY: a copy of what the kernel gave.
        let sig = unsafe { (*info).si_signo };
        mask::replace(handler_mask(sig, self.mask));
        match own_stack(sig) {
            // SAFETY: the program's alternate stack, not in use.
            Some(top) => unsafe { run_on(top, sig, info, &mut context) },
            // SAFETY: as the kernel would call.
            None => unsafe { run(sig, info, &mut context) },
        }
        mask::replace(mask::in_context(&context));
    }
}

/// The top of the alternate stack, if the handler wants it and it is not in use already.
fn own_stack(sig: c_int) -> Option<usize> {
    if !wants_own_stack(sig) {
        return None;
    }
    // SAFETY: all zero is a valid stack_t, which the call fills.
    let stack = unsafe {
        let mut stack: libc::stack_t = zeroed();
        libc::sigaltstack(std::ptr::null(), &mut stack);
        stack
    };
    (stack.ss_flags & (libc::SS_ONSTACK | libc::SS_DISABLE) == 0)
        .then(|| (stack.ss_sp as usize + stack.ss_size) & !15)
}

/// # Safety
/// `top` is the aligned top of a stack that nobody uses; the rest as for `run`.
unsafe fn run_on(top: usize, sig: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    unsafe extern "C" fn entry(sig: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
        // SAFETY: handed on.
        unsafe { run(sig, info, context) };
    }
    // SAFETY: r12 outlives the call by the calling convention and brings the stack back.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {entry}",
            "mov rsp, r12",
            top = in(reg) top,
            entry = sym entry,
            in("rdi") sig,
            in("rsi") info,
            in("rdx") context,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}

/// Sends the signal to this thread (again), as it was.
///
/// # Safety
/// `info` is a valid siginfo.
pub unsafe fn send_again(info: *const siginfo_t) {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    // SAFETY: the kernel reads a siginfo, which the caller says is there.
    let _ = unsafe {
        let args = [
            pid as usize,
            tid as usize,
            (*info).si_signo as usize,
            info as usize,
        ];
        raw::syscall(libc::SYS_rt_tgsigqueueinfo, args)
    };
}
