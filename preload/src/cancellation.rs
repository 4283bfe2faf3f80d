//! Thread cancellation: which threads may be cancelled where is libc's business; `api` is told what
//! it needs to be a good cancellation point.

use libc::{c_int, pthread_t};
use sockets::api;

hooks! {
    redhook fn pthread_cancel(thread: pthread_t) -> c_int {
        api::cancelling(thread);
        // SAFETY: the program's own argument.
        unsafe { real()(thread) }
    }

    /// By hand: to become cancellable anywhere may act at once, and unwind this frame.
    by_hand fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
        // SAFETY: the program's own arguments.
        let result = unsafe { real()(kind, old) };
        if result == 0 {
            api::cancel_type_changed(kind);
        }
        result
    }
}

/// Load time, when the real function is known.
pub fn init() {
    api::cancellation(pthread_setcanceltype::real());
}
