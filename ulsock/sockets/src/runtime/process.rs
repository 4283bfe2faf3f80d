//! This process: its configuration, whether we are on, and why new connections stay on the kernel.
//!
//! Statics are leaked on purpose; destructors of other libraries may still call us at exit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::runtime::spinners::Spinners;
use rendezvous::config::Config;
use rendezvous::reason::Reason;
use rendezvous::rundir::RunDir;

os::process_wide! {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    /// Loaded, configured and not switched off.
    static ON: AtomicBool = AtomicBool::new(false);
    /// New connections stay on the kernel (io_uring, little address space),
    /// for this reason, a number that is not 0.
    static FROZEN: AtomicU32 = AtomicU32::new(0);
    static SPINNERS: AtomicPtr<Spinners> = AtomicPtr::new(std::ptr::null_mut());
}

/// Load time: what the environment says. Nobody else has asked yet.
pub fn configure(config: Config) {
    let _ = CONFIG.set(config);
}

/// From here on calls are ours.
pub fn switch_on() {
    ON.store(true, Ordering::Release);
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

pub fn spinners() -> Option<&'static Spinners> {
    // SAFETY: null, or leaked by `open_spinners`.
    unsafe { SPINNERS.load(Ordering::Acquire).as_ref() }
}

pub fn open_spinners(dir: &RunDir) {
    let spinners = Box::new(Spinners::open(dir));
    SPINNERS.store(Box::into_raw(spinners), Ordering::Release);
}
