//! Signal handlers of the program, seen through a trampoline.
//!
//! The trampoline counts handlers that ran, so that a spinning call can say EINTR as the kernel
//! would, and puts off a handler that comes while its thread is inside a critical section: it is
//! delivered again at the section's end. So a handler may use any connection, or jump away.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use libc::{
    c_int, c_void, sigaction as SigAction, siginfo_t, sigset_t, SA_RESETHAND, SA_RESTART,
    SA_SIGINFO,
};

use crate::sys::raw;
use crate::thread::Thread;

const SIGNALS: usize = 65;

/// What the program installed for one signal.
struct Handler {
    address: AtomicUsize,
    flags: AtomicI32,
}

static HANDLERS: [Handler; SIGNALS] = [const {
    Handler {
        address: AtomicUsize::new(0),
        flags: AtomicI32::new(0),
    }
}; SIGNALS];
/// No handler was ever installed: sleeping needs no care.
static ANY: AtomicBool = AtomicBool::new(false);

pub type RealSigaction = unsafe extern "C" fn(c_int, *const SigAction, *mut SigAction) -> c_int;

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
    let before = (
        handler.address.load(Ordering::Acquire),
        handler.flags.load(Ordering::Acquire),
    );
    // SAFETY: null or valid by the contract of sigaction.
    let wanted = unsafe { act.as_ref() };
    let result = match wanted.filter(|act| needs_trampoline(sig, act)) {
        Some(act) => {
            ANY.store(true, Ordering::Release);
            handler.flags.store(act.sa_flags, Ordering::Release);
            handler.address.store(act.sa_sigaction, Ordering::Release);
            let mut ours = *act;
            ours.sa_sigaction = trampoline as *const () as usize;
            ours.sa_flags |= SA_SIGINFO;
            // SAFETY: `ours` is a valid action, `old` as given.
            unsafe { real(sig, &ours, old) }
        }
        // SAFETY: forwarded as given.
        None => unsafe { real(sig, act, old) },
    };
    if result != 0 && wanted.is_some() {
        handler.address.store(before.0, Ordering::Release);
        handler.flags.store(before.1, Ordering::Release);
    }
    // SAFETY: null or valid, and filled by the real function when it succeeded.
    if let Some(old) = unsafe { old.as_mut() }.filter(|_| result == 0) {
        if old.sa_sigaction == trampoline as *const () as usize {
            old.sa_sigaction = before.0;
            old.sa_flags = (old.sa_flags & !SA_SIGINFO) | (before.1 & SA_SIGINFO);
        }
    }
    result
}

/// A fault inside our code is our own and cannot wait; a one-shot handler would find itself reset
/// when it is delivered again.
fn needs_trampoline(sig: c_int, act: &SigAction) -> bool {
    let faults = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];
    act.sa_sigaction > libc::SIG_IGN && act.sa_flags & SA_RESETHAND == 0 && !faults.contains(&sig)
}

extern "C" fn trampoline(sig: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if let Some(me) = Thread::known() {
        if me.in_critical() && me.deferred.put(info) {
            return;
        }
        me.handlers.fetch_add(1, Ordering::Relaxed);
        if HANDLERS[sig as usize].flags.load(Ordering::Acquire) & SA_RESTART == 0 {
            me.interruptions.fetch_add(1, Ordering::Relaxed);
        }
    }
    let address = HANDLERS[sig as usize].address.load(Ordering::Acquire);
    if address > libc::SIG_IGN {
        // SAFETY: the program installed a handler of this type at this address; one that takes the
        // signal number alone ignores the other two registers.
        unsafe {
            std::mem::transmute::<usize, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(address)(
                sig, info, context,
            )
        };
    }
}

/// Signals that came inside a critical section; filled by the handler, emptied by its own thread.
#[derive(Default)]
pub struct Deferred {
    count: AtomicUsize,
    waiting: [std::cell::UnsafeCell<Info>; 4],
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Info([u8; std::mem::size_of::<siginfo_t>()]);

impl Default for Info {
    fn default() -> Self {
        Info([0; std::mem::size_of::<siginfo_t>()])
    }
}

// SAFETY: only the owning thread and handlers that interrupt it touch the cells.
unsafe impl Sync for Deferred {}

impl Deferred {
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// `false` when there is no room: then the handler runs now.
    fn put(&self, info: *const siginfo_t) -> bool {
        let at = self.count.load(Ordering::Relaxed);
        let Some(cell) = self.waiting.get(at) else {
            return false;
        };
        // SAFETY: the kernel gave a valid siginfo; this cell is beyond those in use.
        unsafe { *cell.get() = *info.cast::<Info>() };
        self.count.store(at + 1, Ordering::Relaxed);
        true
    }

    /// Sends them to this thread again; now outside of any critical section.
    #[cold]
    pub fn deliver(&self) {
        while let Some(last) = self.count.load(Ordering::Relaxed).checked_sub(1) {
            // SAFETY: the cell was filled by `put`; a handler that comes now sees section depth 0
            // and does not touch it.
            let info = unsafe { *self.waiting[last].get() };
            self.count.store(last, Ordering::Relaxed);
            resend(&info);
        }
    }
}

fn resend(info: &Info) {
    let info: *const siginfo_t = std::ptr::from_ref(info).cast();
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    // SAFETY: `info` is a siginfo that the kernel gave us.
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

/// All signals blocked while it lives, if the program has handlers: between the last look at the
/// counts and the sleep no handler can slip through. The sleep itself restores the mask.
pub struct Blocked {
    before: Option<sigset_t>,
}

impl Blocked {
    pub fn new() -> Blocked {
        if !ANY.load(Ordering::Acquire) {
            return Blocked { before: None };
        }
        // SAFETY: sigset_t is plain data, filled by the calls below.
        let (mut all, mut before): (sigset_t, sigset_t) = unsafe { std::mem::zeroed() };
        // SAFETY: valid pointers to local sets.
        unsafe {
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        }
        Blocked {
            before: Some(before),
        }
    }

    /// The mask to sleep with: the program's own for this call, or the one from before.
    pub fn sleep_mask(&self, own: *const sigset_t) -> *const sigset_t {
        match &self.before {
            Some(before) if own.is_null() => before,
            _ => own,
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: restores the set that was saved in `new`.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
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

    /// A sleep was interrupted: does that end recv and send? Not if the handler was installed with
    /// SA_RESTART; one that we have not counted (a one-shot handler has no trampoline) does. What has
    /// been seen is not seen again.
    pub fn ends_call(&mut self, me: &Thread) -> bool {
        let before = std::mem::replace(self, Seen::now(me));
        before.handlers == self.handlers || before.interruptions != self.interruptions
    }

    /// Any handler ran: poll and its kind end.
    pub fn any_handler(&self, me: &Thread) -> bool {
        me.handlers.load(Ordering::Relaxed) != self.handlers
    }
}
