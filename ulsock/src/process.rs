//! This process: its configuration, its pid, and everything it owns once.
//!
//! Nothing is opened at load: the first TCP socket opens the run directory and makes the family.
//! Statics are leaked on purpose; destructors of other libraries may still call us at exit.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::OnceLock;

use netstack::ring::SideLock;

use crate::backoff::Backoff;
use crate::chaos;
use crate::config::Config;
use crate::control::Control;
use crate::family::Family;
use crate::log;
use crate::reason::Reason;
use crate::rundir::{RunDir, RunDirError};
use crate::spinners::Spinners;
use crate::sys::pid;
use crate::thread::{Critical, Thread};
use crate::waiter;

static CONFIG: OnceLock<Config> = OnceLock::new();
/// Loaded, configured and not switched off.
static ON: AtomicBool = AtomicBool::new(false);
/// New connections stay on the kernel (io_uring, little address space),
/// for this reason, a number that is not 0.
static FROZEN: AtomicU32 = AtomicU32::new(0);
static FAMILY: AtomicPtr<Family> = AtomicPtr::new(std::ptr::null_mut());
static CONTROL: AtomicPtr<Control> = AtomicPtr::new(std::ptr::null_mut());
static SPINNERS: AtomicPtr<Spinners> = AtomicPtr::new(std::ptr::null_mut());
/// Guards `CONTROL` and the making of all of the above; knows its owner, so that fork can handle it.
static LOCK: SideLock = SideLock::new();

/// Load time. The order matters: the tables before anything that may be looked up in them.
pub fn init() {
    ask_libc();
    crate::access::init();
    pid::note();
    if is_secure() {
        return;
    }
    match Config::from_env() {
        Ok(config) => {
            let enabled = config.enabled;
            log::init(config.log, config.log_file.as_deref());
            let _ = CONFIG.set(config);
            chaos::init();
            if enabled && !crate::limits::are_too_low() && crate::table::init() {
                crate::sys::fds::on_internal(crate::lifecycle::internal_fd);
                crate::sys::fds::make_room();
                crate::memory::init();
                crate::thread::init();
                crate::rundir::make_if_root(&self::config().run_dir);
                ON.store(true, Ordering::Release);
                crate::will::take_over(&self::config().run_dir);
            }
        }
        Err(error) => log::always(format_args!("{error}; staying on kernel TCP")),
    }
}

/// rustix looks libc's auxiliary vector up at its first need of the clock, by dlsym: not in a hook.
/// (The kernel's own vector would not do: valgrind hides from programs what it names.)
fn ask_libc() {
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
}

/// A set-uid or set-gid program, or one whose file has capabilities: it has more rights than whoever has started it and
/// chosen its environment, of which nothing is believed. We are off, make no file and say no word. The loader drops
/// LD_PRELOAD there, but loads what /etc/ld.so.preload names (getauxval(3), ld.so(8)).
fn is_secure() -> bool {
    // SAFETY: takes and returns a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// No new upgrades from here on.
pub fn freeze(reason: Reason) {
    FROZEN.store(reason as u32, Ordering::Release);
}

pub fn is_frozen() -> bool {
    FROZEN.load(Ordering::Acquire) != 0
}

/// Why there are no new upgrades.
pub fn frozen_for() -> Option<Reason> {
    let number = FROZEN.load(Ordering::Acquire);
    (number != 0).then(|| Reason::from_number(number))
}

/// From here on we are not there: a seccomp filter would kill at the first extra system call.
pub fn switch_off() {
    ON.store(false, Ordering::Release);
}

pub fn config() -> &'static Config {
    CONFIG.get_or_init(Config::default)
}

fn get<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: null, or leaked by `set`.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

fn set<T>(place: &AtomicPtr<T>, value: T) {
    place.store(Box::into_raw(Box::new(value)), Ordering::Release);
}

/// The family, if a TCP socket has been seen.
#[inline]
pub fn family() -> Option<&'static Family> {
    get(&FAMILY)
}

pub fn spinners() -> Option<&'static Spinners> {
    get(&SPINNERS)
}

/// The first TCP socket: opens the run directory and makes the family. Says once why it cannot.
pub fn begin() -> Option<&'static Family> {
    if let Some(family) = family() {
        return Some(family);
    }
    if !is_on() {
        return None;
    }
    crate::signal::fault::catch();
    let _control = Locked::wait()?;
    if family().is_some() || !is_on() {
        return family();
    }
    if let Err(problem) = open_everything() {
        let dir = config().run_dir.display();
        log::always(format_args!("{dir}: {problem}; staying on kernel TCP"));
        switch_off();
    }
    family()
}

fn open_everything() -> Result<(), String> {
    let dir = RunDir::open(&config().run_dir).map_err(|error| error.to_string())?;
    dir.may_write().map_err(|error| error.to_string())?;
    dir.sweep();
    let family = Family::create(&dir).map_err(|errno| RunDirError::Write(errno).to_string())?;
    waiter::begin().ok_or("no memory for our tables")?;
    set(&SPINNERS, Spinners::open(&dir));
    set(&CONTROL, Control::new(dir));
    set(&FAMILY, family);
    Ok(())
}

/// The control lock, held within a critical section.
pub struct Locked {
    _critical: Critical,
}

impl Locked {
    pub fn wait() -> Option<Locked> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(locked) = Locked::take() {
                return Some(locked);
            }
            // Outside of the critical section: the owner may be waiting for everybody to leave theirs.
            let me = Thread::me()?;
            if LOCK.is_held_by(me.id()) {
                // Around fork, from a handler of the program's: it must do without.
                return None;
            }
            backoff.pause();
        }
    }

    /// `None` when somebody else is at it: the next call tries again.
    pub fn take() -> Option<Locked> {
        let critical = Critical::enter()?;
        LOCK.try_lock(critical.0.id()).ok()?;
        Some(Locked {
            _critical: critical,
        })
    }

    pub fn control(&mut self) -> Option<&mut Control> {
        // SAFETY: null or leaked by `set`; the lock makes this the only reference.
        unsafe { CONTROL.load(Ordering::Acquire).as_mut() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCK.unlock();
    }
}

/// Before fork: nobody else may be halfway through a change of the control state.
pub fn lock_for_fork() {
    let Some(me) = Thread::me() else { return };
    let mut backoff = Backoff::default();
    while LOCK.try_lock(me.id()).is_err() {
        backoff.pause();
    }
}

pub fn unlock_after_fork() {
    if let Some(me) = Thread::me() {
        LOCK.unlock_if(me.id());
    }
}

/// In a forked child: a pid, waiters and a control state of its own. What the parent had is kept
/// mapped (connections may still be drained through it) but no longer spoken for.
pub fn after_fork() {
    note_new_process();
    let Some(family) = family() else { return };
    family.header().members.fetch_add(1, Ordering::AcqRel);
    if let Some(waiters) = Waiters::create() {
        }
    // SAFETY: null or leaked by `set`; the child has only this thread.
    let parents = unsafe { CONTROL.load(Ordering::Acquire).as_ref() };
    if let Some(control) = parents.and_then(Control::for_child) {
        set(&CONTROL, control);
    }
    if let Some(spinners) = spinners() {
        spinners.after_fork();
    }
}

/// In a new process, before anything else: who it is.
pub fn note_new_process() {
    pid::note();
    crate::inline::after_fork();
    crate::waiter::after_fork();
    crate::mlock::after_fork();
    crate::thread::after_fork();
}

/// At exit: our mailbox goes.
pub fn leave_run_dir() {
    let Some(mut locked) = Locked::take() else {
        return;
    };
    let Some((control, family)) = locked.control().zip(family()) else {
        return;
    };
    family.header().members.fetch_sub(1, Ordering::AcqRel);
    control.leave();
}
