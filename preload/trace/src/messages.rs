//! Calls with messages. Of several the result is their number, and their bytes are in the vector.

use libc::{c_int, c_uint, c_void, mmsghdr, msghdr, ssize_t, timespec};
use trace::call::Call;

use crate::real::Real;
use crate::record::recorded;

type OfOne = unsafe extern "C" fn(c_int, *mut msghdr, c_int) -> ssize_t;
type SendMany = unsafe extern "C" fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int;
type ReceiveMany = unsafe extern "C" fn(c_int, *mut mmsghdr, c_uint, c_int, *mut timespec) -> c_int;

static SENDMSG: Real = Real::new(c"sendmsg");
static RECVMSG: Real = Real::new(c"recvmsg");
static SENDMMSG: Real = Real::new(c"sendmmsg");
static RECVMMSG: Real = Real::new(c"recvmmsg");

/// Looks up the real functions of this file.
pub const RESOLVE: &[fn()] = &[
    || _ = SENDMSG.get(),
    || _ = RECVMSG.get(),
    || _ = SENDMMSG.get(),
    || _ = RECVMMSG.get(),
];

/// What the first messages had, which the call has just filled in.
unsafe fn bytes(vec: *const mmsghdr, count: i64) -> Option<u64> {
    let count = usize::try_from(count).ok()?;
    // SAFETY: the call has written the lengths of so many messages of the program's vector.
    let length = |at| u64::from(unsafe { (*vec.wrapping_add(at)).msg_len });
    Some((0..count).map(length).sum())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: libc's function of this name.
    let real = unsafe { std::mem::transmute::<*mut c_void, OfOne>(SENDMSG.get()) };
    // SAFETY: the program's own arguments.
    let make = || unsafe { real(fd, msg, flags) } as i64;
    recorded(Call::Sendmsg, fd, make, |_| None) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: libc's function of this name.
    let real = unsafe { std::mem::transmute::<*mut c_void, OfOne>(RECVMSG.get()) };
    // SAFETY: the program's own arguments.
    let make = || unsafe { real(fd, msg, flags) } as i64;
    recorded(Call::Recvmsg, fd, make, |_| None) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    fd: c_int,
    vec: *mut mmsghdr,
    len: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: libc's function of this name.
    let real = unsafe { std::mem::transmute::<*mut c_void, SendMany>(SENDMMSG.get()) };
    // SAFETY: the program's own arguments.
    let make = || unsafe { real(fd, vec, len, flags) } as i64;
    // SAFETY: the call has succeeded with so many.
    recorded(Call::Sendmmsg, fd, make, |count| unsafe {
        bytes(vec, count)
    }) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    vec: *mut mmsghdr,
    len: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: libc's function of this name.
    let real = unsafe { std::mem::transmute::<*mut c_void, ReceiveMany>(RECVMMSG.get()) };
    // SAFETY: the program's own arguments.
    let make = || unsafe { real(fd, vec, len, flags, timeout) } as i64;
    // SAFETY: the call has succeeded with so many.
    recorded(Call::Recvmmsg, fd, make, |count| unsafe {
        bytes(vec, count)
    }) as c_int
}
