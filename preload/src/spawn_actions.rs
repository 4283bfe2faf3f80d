//! Which descriptors posix_spawn's file actions hand to the new program: close-on-exec does not keep
//! a socket from it that is duplicated on the way.
//!
//! libc keeps the actions in a form of its own. It has been the same since they exist (glibc's
//! posix/spawn_int.h), but is no promise: a probe asks this libc once, and if it does not find what
//! it expects, all sockets return to the kernel.

use libc::{c_int, c_void, posix_spawn_file_actions_t};
use sockets::api;
use std::mem::{size_of, zeroed};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The beginning of posix_spawn_file_actions_t.
#[repr(C)]
struct Actions {
    allocated: c_int,
    used: c_int,
    list: *const Action,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Action {
    tag: c_int,
    _padding: c_int,
    fd: c_int,
    new: c_int,
    _rest: [u64; 2],
}

const DUP2: c_int = 1;

/// 0: not asked yet.
static FORM: AtomicU8 = AtomicU8::new(0);
const KNOWN: u8 = 1;
const UNKNOWN: u8 = 2;

fn form_is_known() -> bool {
    if FORM.load(Relaxed) == 0 {
        // SAFETY: the probe's own actions.
        let form = if unsafe { probe() } { KNOWN } else { UNKNOWN };
        FORM.store(form, Relaxed);
    }
    FORM.load(Relaxed) == KNOWN
}

/// Adds two actions and looks for them.
unsafe fn probe() -> bool {
    // SAFETY: all zero is a place for `init` to fill; what is read lies within the actions' own size,
    // and within the list as libc's count says.
    unsafe {
        let mut actions: posix_spawn_file_actions_t = zeroed();
        if libc::posix_spawn_file_actions_init(&mut actions) != 0 {
            return false;
        }
        let added = [(41, 42), (43, 44)]
            .map(|(fd, new)| libc::posix_spawn_file_actions_adddup2(&mut actions, fd, new) == 0);
        let seen = &*(&raw const actions).cast::<Actions>();
        let fits =
            added == [true; 2] && seen.used == 2 && seen.allocated >= 2 && !seen.list.is_null();
        // Two actions of the expected size lie in memory that was made for at least as many.
        let known = fits && {
            let [first, second] = [*seen.list, *seen.list.add(1)];
            (first.tag, first.fd, first.new) == (DUP2, 41, 42)
                && (second.tag, second.fd, second.new) == (DUP2, 43, 44)
        };
        libc::posix_spawn_file_actions_destroy(&mut actions);
        known && size_of::<Actions>() <= size_of::<posix_spawn_file_actions_t>()
    }
}

/// Before a spawn: the sockets that are duplicated return to the kernel.
///
/// # Safety
/// As libc's posix_spawn.
pub unsafe fn prepare(actions: *const c_void) {
    // SAFETY: posix_spawn takes a null pointer or file actions that were initialised.
    let Some(actions) = (unsafe { actions.cast::<Actions>().as_ref() }) else {
        return;
    };
    if actions.used <= 0 || !api::has_connections() {
        return;
    }
    if !form_is_known() {
        return api::before_spawn_of_all();
    }
    for at in 0..actions.used as usize {
        // SAFETY: the probe has shown the form, and `used` counts.
        let action = unsafe { *actions.list.add(at) };
        if action.tag == DUP2 {
            api::to_program(action.fd);
        }
    }
}
