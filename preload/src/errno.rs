//! The C edge of errors: `errno` is set when a verdict says so, and otherwise is what the real
//! function left in it.

use libc::c_int;

/// The failure value of a libc function that returns a count, an fd or a status.
pub fn fail(error: c_int) -> isize {
    set(error);
    -1
}

/// Runs what has to follow a real call without disturbing the `errno` which that call left.
pub fn keep<T>(after: impl FnOnce() -> T) -> T {
    let error = get();
    let result = after();
    set(error);
    result
}

pub fn get() -> c_int {
    // SAFETY: glibc returns the address of this thread's errno, valid as long as the thread lives.
    unsafe { *libc::__errno_location() }
}

pub fn set(error: c_int) {
    // SAFETY: glibc returns the address of this thread's errno, valid as long as the thread lives.
    unsafe { *libc::__errno_location() = error }
}
