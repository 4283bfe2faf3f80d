//! Signal handlers of the program, seen through a trampoline.
//!
//! The trampoline counts handlers that ran, so that a call which waits in user space can say EINTR
//! as the kernel would; it puts off a handler that comes while its thread is inside a critical
//! section; and a thread that sleeps gets up before the handler runs. So a handler may use any
//! connection, or jump away. A kernel call that is restarted may have to be ours (`restart`). A fault at a bad pointer of the program's is dealt with here (`fault`).

mod deferred;
mod disguise;
pub mod fault;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use libc::{
    SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SA_SIGINFO, c_int, c_void,
    sigaction as SigAction, siginfo_t, ucontext_t,
};

use crate::runtime::thread::Thread;
use crate::runtime::upcalls;
use os::mask;

pub use deferred::Deferred;
pub use disguise::{Shown, init as disguise};

const SIGNALS: usize = 65;

/// What the program installed for one signal.
struct Handler {
    address: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

os::process_wide! {
    static HANDLERS: [Handler; SIGNALS] = [const {
        Handler {
            address: AtomicUsize::new(0),
            flags: AtomicI32::new(0),
            mask: AtomicU64::new(0),
        }
    }; SIGNALS];
    /// A handler for other signals than faults was installed at some time: until then sleeping needs no
    /// care.
    static ANY: AtomicBool = AtomicBool::new(false);
    /// libc's `sigaction`, for one-shot handlers.
    static REAL: AtomicUsize = AtomicUsize::new(0);
}

pub type RealSigaction = unsafe extern "C" fn(c_int, *const SigAction, *mut SigAction) -> c_int;
type Function = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// What one signal leads to.
#[derive(Clone, Copy)]
struct Action {
    address: usize,
    flags: c_int,
    mask: u64,
}

impl Handler {
    fn get(&self) -> Action {
        Action {
            address: self.address.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Acquire),
            mask: self.mask.load(Ordering::Acquire),
        }
    }

    fn set(&self, action: Action) {
        self.mask.store(action.mask, Ordering::Release);
        self.flags.store(action.flags, Ordering::Release);
        self.address.store(action.address, Ordering::Release);
    }
}

impl Action {
    fn of(act: &SigAction) -> Action {
        Action {
            address: act.sa_sigaction,
            // As the kernel will tell it: libc adds this one to each.
            flags: act.sa_flags | fault::SA_RESTORER,
            mask: mask::of(&act.sa_mask),
        }
    }

    fn is_handler(&self) -> bool {
        self.address > libc::SIG_IGN
    }

    /// What the kernel has in its place.
    fn installed(&self) -> SigAction {
        // SAFETY: a zeroed sigaction is valid.
        let mut act: SigAction = unsafe { std::mem::zeroed() };
        act.sa_sigaction = trampoline as *const () as usize;
        act.sa_mask = mask::set(self.mask);
        // The trampoline resets a one-shot handler itself: one that is put off still has its turn to
        // come.
        act.sa_flags = (self.flags | SA_SIGINFO) & !SA_RESETHAND;
        act
    }

    /// What `sigaction` tells the program, from what the kernel has told of the trampoline.
    fn tell(&self, old: &mut SigAction) {
        const OWN: c_int = SA_SIGINFO | SA_RESETHAND;
        old.sa_sigaction = self.address;
        if self.is_handler() {
            old.sa_flags = (old.sa_flags & !OWN) | (self.flags & OWN);
        } else {
            fault::tell_default(self, old);
        }
    }
}

/// libc's `sigaction`, once it is known.
fn real() -> Option<RealSigaction> {
    let address = REAL.load(Ordering::Acquire);
    // SAFETY: nothing else is stored there.
    (address != 0).then(|| unsafe { std::mem::transmute::<usize, RealSigaction>(address) })
}

/// Load time.
pub fn init(real: RealSigaction) {
    REAL.store(real as usize, Ordering::Release);
}

/// The whole of `sigaction`: the program sees its own handlers, the kernel our trampoline.
///
/// # Safety
/// As libc's `sigaction`; `real` is that function.
pub unsafe fn sigaction(
    sig: c_int,
    act: *const SigAction,
    old: *mut SigAction,
    real: RealSigaction,
) -> c_int {
    if !(1..SIGNALS as c_int).contains(&sig) {
        // SAFETY: forwarded as given.
        return unsafe { real(sig, act, old) };
    }
    let handler = &HANDLERS[sig as usize];
    let before = handler.get();
    // SAFETY: null or valid by the contract of sigaction.
    let wanted = unsafe { act.as_ref() }
        .filter(|act| act.sa_sigaction != trampoline as *const () as usize)
        .map(Action::of);
    if let Some(wanted) = wanted {
        handler.set(wanted);
        fault::disposed(sig, &wanted);
    }
    let result = match wanted {
        Some(wanted) if wanted.is_handler() => {
            // Faults are never blocked: an instruction raises them, and none of a sleeper's does.
            if mask::bit(sig) & mask::FAULTS == 0 {
                ANY.store(true, Ordering::Release);
            }
            // SAFETY: a valid action, and `old` as given.
            unsafe { real(sig, &wanted.installed(), old) }
        }
        // SAFETY: a valid action; the caller says that `old` is null or can be written.
        Some(wanted) if fault::stays_caught(sig, &wanted) => unsafe {
            real(sig, &fault::while_default(), old)
        },
        // SAFETY: forwarded as given.
        _ => unsafe { real(sig, act, old) },
    };
    if result != 0 && wanted.is_some() {
        handler.set(before);
        fault::disposed(sig, &before);
    }
    // SAFETY: null or valid, and filled by the real function when it succeeded.
    if let Some(old) = unsafe { old.as_mut() }.filter(|_| result == 0)
        && old.sa_sigaction == trampoline as *const () as usize
    {
        before.tell(old);
    }
    result
}

extern "C" fn trampoline(sig: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let context = context.cast::<ucontext_t>();
    // SAFETY: the kernel gave both, valid while we run.
    if mask::bit(sig) & fault::CAUGHT != 0 && unsafe { fault::fix_up(sig, info, context) } {
        return;
    }
    if let Some(me) = Thread::known() {
        // SAFETY: the kernel gave both, valid while we run.
        unsafe {
            if me.in_critical() && !is_fault(sig, info) && me.deferred.put(info, context) {
                return;
            }
            me.bed().interrupt(&mut *context);
        }
    }
    // SAFETY: what the kernel gave this handler; it has blocked what the handler wants blocked.
    unsafe {
        run(sig, info, context);
        (upcalls::get().restart)(&mut *context);
    }
}

/// A fault of the program's or our own instruction cannot wait.
///
/// # Safety
/// `info` is valid.
unsafe fn is_fault(sig: c_int, info: *const siginfo_t) -> bool {
    // SAFETY: the caller says that `info` is valid. What the kernel itself raises has a positive code.
    unsafe { mask::bit(sig) & mask::FAULTS != 0 && (*info).si_code > 0 }
}

/// Calls the program's handler. The mask is already the handler's.
///
/// # Safety
/// `info` and `context` are as the kernel gives them to a handler.
unsafe fn run(sig: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    let Some(action) = take(sig) else {
        // SAFETY: `info` is valid. What the signal means now is the kernel's business.
        return unsafe {
            if fault::act_by_default(sig, info) {
                deferred::send_again(info);
            }
        };
    };
    let mark = 0u8;
    let me = Thread::known();
    let outer = me.map(|me| {
        me.handlers.fetch_add(1, Ordering::Relaxed);
        if action.flags & SA_RESTART == 0 {
            me.interruptions.fetch_add(1, Ordering::Relaxed);
        }
        me.handler_at
            .swap(&raw const mark as usize, Ordering::Relaxed)
    });
    // SAFETY: the program installed a handler of this type at this address; one that takes the
    // signal number alone ignores the other two registers. `info` and `context` are as the caller says.
    unsafe {
        let undisguised = disguise::put_on(sig, info, context);
        let function = std::mem::transmute::<usize, Function>(action.address);
        function(sig, info, context.cast());
        disguise::take_off(undisguised, context);
    }
    if let (Some(me), Some(outer)) = (me, outer) {
        me.handler_at.store(outer, Ordering::Relaxed);
    }
}

/// The handler to call now; `None` when there is none any more. A one-shot handler is used up.
fn take(sig: c_int) -> Option<Action> {
    let handler = &HANDLERS[sig as usize];
    let action = handler.get();
    if !action.is_handler() || action.flags & SA_RESETHAND == 0 {
        return Some(action).filter(Action::is_handler);
    }
    handler
        .address
        .compare_exchange(
            action.address,
            libc::SIG_DFL,
            Ordering::AcqRel,
            Ordering::Relaxed,
        )
        .ok()?;
    // SAFETY: a zeroed sigaction is valid. Flags and mask stay, as in the kernel.
    let mut act: SigAction = unsafe { std::mem::zeroed() };
    act.sa_flags = action.flags;
    act.sa_mask = mask::set(action.mask);
    if fault::stays_caught(sig, &Action::of(&act)) {
        act = fault::while_default();
    }
    if let Some(real) = real() {
        // SAFETY: a valid action.
        unsafe { real(sig, &act, std::ptr::null_mut()) };
    }
    Some(action)
}

/// The mask under which a handler runs that interrupts `mask`.
fn handler_mask(sig: c_int, mask: u64) -> u64 {
    let action = HANDLERS[sig as usize].get();
    let own = if action.flags & SA_NODEFER == 0 {
        mask::bit(sig)
    } else {
        0
    };
    mask | action.mask | own
}

fn wants_own_stack(sig: c_int) -> bool {
    HANDLERS[sig as usize].get().flags & SA_ONSTACK != 0
}

/// May handlers run at all?
pub fn any_installed() -> bool {
    ANY.load(Ordering::Acquire)
}

/// SIGPIPE for this thread, as the kernel sends it.
pub fn broken_pipe() {
    // SAFETY: all zero is a valid siginfo.
    let mut info: siginfo_t = unsafe { std::mem::zeroed() };
    info.si_signo = libc::SIGPIPE;
    info.si_code = libc::SI_USER;
    let sender = [
        rustix::process::getpid().as_raw_nonzero().get() as u32,
        rustix::process::getuid().as_raw(),
    ];
    // SAFETY: pid and uid of the sender lie behind the three numbers and their padding (the kernel's
    // asm-generic/siginfo.h), well inside the structure.
    unsafe {
        (&raw mut info)
            .cast::<u8>()
            .add(16)
            .cast::<[u32; 2]>()
            .write(sender);
        deferred::send_again(&raw const info);
    }
}

/// The counts at the beginning of a call, to compare with later.
#[derive(Clone, Copy)]
pub struct Seen {
    handlers: u32,
    interruptions: u32,
}

impl Seen {
    pub fn now(me: &Thread) -> Seen {
        Seen {
            handlers: me.handlers.load(Ordering::Relaxed),
            interruptions: me.interruptions.load(Ordering::Relaxed),
        }
    }

    /// A wait was interrupted: does that end recv and send? Not if the handler was installed with
    /// SA_RESTART; one that we have not counted (installed past libc) does.
    pub fn ends_call(&self, me: &Thread) -> bool {
        let now = Seen::now(me);
        now.handlers == self.handlers || now.interruptions != self.interruptions
    }

    /// Any handler ran: poll and its kind end.
    pub fn any_handler(&self, me: &Thread) -> bool {
        me.handlers.load(Ordering::Relaxed) != self.handlers
    }
}
