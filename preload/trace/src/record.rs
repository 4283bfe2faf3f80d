//! A call of the program's, between two looks at the clock.

use std::ffi::c_int;

use trace::call::Call;
use trace::write;

use crate::errno;

/// Makes a call of the program's, and records it. `bytes` says how many it has moved, if its result does not.
#[inline(always)]
pub fn recorded(
    call: Call,
    fd: c_int,
    make: impl FnOnce() -> i64,
    bytes: impl FnOnce(i64) -> Option<u64>,
) -> i64 {
    let Some(span) = write::begin(call, fd) else {
        return make();
    };
    let result = make();
    errno::keep(|| write::end(span, result, bytes(result), errno::get()));
    result
}
