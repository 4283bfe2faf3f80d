//! Libraries that are loaded so that their calls do not come to us: with symbols of their own before
//! those of the program, or with a libc of their own.

mod rebind;

use libc::{LM_ID_BASE, RTLD_DEEPBIND, c_char, c_int, c_long, c_void};
use rebind::Loaded;
use sockets::api;

hooks! {
    /// Forwarded, for libc looks at its caller: where it searches depends on that.
    redirect fn dlopen(name: *const c_char, flags: c_int) {
        if flags & RTLD_DEEPBIND == 0 || !api::is_on() {
            return real();
        }
        // SAFETY: the program's own argument.
        if unsafe { rebind::is_path(name) } {
            return open_and_rebind as unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void as *mut c_void;
        }
        api::before_plugin();
        real()
    }

    forward fn dlmopen(space: c_long, _name: *const c_char, flags: c_int) {
        if space != LM_ID_BASE || flags & RTLD_DEEPBIND != 0 {
            api::before_plugin();
        }
    }
}

/// Instead of `dlopen`, for a library whose calls would pass by us.
unsafe extern "C" fn open_and_rebind(name: *const c_char, flags: c_int) -> *mut c_void {
    let before = Loaded::now();
    // SAFETY: the program's own arguments.
    let handle = unsafe { open(name, flags) };
    if !handle.is_null() && before.rebind_new().is_err() {
        api::before_plugin();
    }
    handle
}

/// The real `dlopen`.
unsafe fn open(name: *const c_char, flags: c_int) -> *mut c_void {
    type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    // SAFETY: the address is libc's function of this name, whose C prototype is `Dlopen`.
    unsafe { std::mem::transmute::<*mut c_void, Dlopen>(dlopen::real())(name, flags) }
}
