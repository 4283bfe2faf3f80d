//! Does an engine in this process serve connections, so that whoever waits has to poll it?

use std::sync::atomic::{AtomicBool, Ordering};

use crate::runtime::upcalls;

os::process_wide! {
    static ON: AtomicBool = AtomicBool::new(false);
}

#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Whether it was on before.
pub fn set(on: bool) -> bool {
    ON.swap(on, Ordering::AcqRel)
}

/// As a poll of the engine, for those who look again and again: nothing but a look for frames, most of the time. `false`
/// if it could not look.
#[inline]
pub fn glance() -> bool {
    is_on() && (upcalls::get().engine_glances)()
}

/// Somebody has lain down: the engine's helper is on duty.
#[inline]
pub fn take_duty() {
    if is_on() {
        (upcalls::get().engine_takes_duty)();
    }
}
