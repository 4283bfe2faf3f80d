//! Libraries that are loaded so that their calls do not come to us: with symbols of their own before
//! those of the program, or with a libc of their own.

use libc::{c_char, c_int, c_long, LM_ID_BASE, RTLD_DEEPBIND};
use ulsock::api;

hooks! {
    /// Forwarded, for libc looks at who calls it: where it searches depends on that.
    forward fn dlopen(_name: *const c_char, flags: c_int) {
        if flags & RTLD_DEEPBIND != 0 {
            api::before_plugin();
        }
    }

    forward fn dlmopen(space: c_long, _name: *const c_char, flags: c_int) {
        if space != LM_ID_BASE || flags & RTLD_DEEPBIND != 0 {
            api::before_plugin();
        }
    }
}
