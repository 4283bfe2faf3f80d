//! Where a signal finds a thread that runs on a stack of ours, as the program shall see it: in the system call that it has
//! made, on its own stack. Handlers that look at it then find what they would without us (the runtime of Go walks the stack).

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{REG_RBP, REG_RIP, REG_RSP, c_int, siginfo_t, ucontext_t};

/// Three registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub instruction: usize,
    pub stack: usize,
    pub frame: usize,
}

/// What the program shall see of this thread, if its stack pointer is this.
type Ask = fn(stack: usize) -> Option<Shown>;

os::process_wide! {
    static ASK: AtomicUsize = AtomicUsize::new(0);
}

/// Load time, of a program for which it matters.
pub fn init(ask: Ask) {
    ASK.store(ask as usize, Ordering::Release);
}

/// What was there, if something else is shown now. A fault is shown where it is.
///
/// # Safety
/// `info` and `context` are as the kernel gives them to a handler.
pub(super) unsafe fn put_on(
    sig: c_int,
    info: *const siginfo_t,
    context: *mut ucontext_t,
) -> Option<Shown> {
    let ask = ASK.load(Ordering::Acquire);
    // SAFETY: as the caller says.
    if ask == 0 || unsafe { super::is_fault(sig, info) } {
        return None;
    }
    // SAFETY: nothing else is stored there; `context` is as the caller says.
    let (ask, context) = unsafe { (std::mem::transmute::<usize, Ask>(ask), &mut *context) };
    let before = Shown::of(context);
    ask(before.stack)?.write(context);
    Some(before)
}

/// Whatever the handler has made of it: it cannot change what it did not see.
///
/// # Safety
/// As for [`put_on`].
pub(super) unsafe fn take_off(undisguised: Option<Shown>, context: *mut ucontext_t) {
    if let Some(before) = undisguised {
        // SAFETY: as the caller says.
        before.write(unsafe { &mut *context });
    }
}

impl Shown {
    fn of(context: &ucontext_t) -> Shown {
        let registers = &context.uc_mcontext.gregs;
        let register = |at: c_int| registers[at as usize] as usize;
        Shown {
            instruction: register(REG_RIP),
            stack: register(REG_RSP),
            frame: register(REG_RBP),
        }
    }

    fn write(self, context: &mut ucontext_t) {
        let registers = &mut context.uc_mcontext.gregs;
        registers[REG_RIP as usize] = self.instruction as i64;
        registers[REG_RSP as usize] = self.stack as i64;
        registers[REG_RBP as usize] = self.frame as i64;
    }
}
