//! io_uring: what a program asks of it passes by all hooks but those here, so the new entries are shown to `api` before the
//! kernel takes them. Programs come by libc's `syscall` or by liburing; Debian's makes system calls of its own, without
//! libc, and therefore its functions that make an io_uring, submit or register files are hooked too.

use libc::{
    ENOSYS, RTLD_NEXT, RTLD_NOLOAD, RTLD_NOW, c_int, c_long, c_uint, c_void, sigset_t, timespec,
};
use sockets::api;
use sockets::api::uring::{self, Call, Liburing, Limit, Real};
use std::ffi::CStr;
use std::mem::{MaybeUninit, transmute};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

use crate::errno;

/// The names under which liburing may be loaded.
const LIBRARIES: [&CStr; 3] = [c"liburing.so.2", c"liburing-ffi.so.2", c"liburing.so.1"];

/// io_uring_setup(2), made by `real`.
pub fn making(params: usize, real: impl FnOnce() -> c_long) -> c_long {
    let fd = real();
    if fd >= 0 {
        // SAFETY: the parameters that the call was given.
        errno::keep(|| unsafe { uring::made(fd as c_int, params as *const _) });
    }
    fd
}

/// io_uring_enter(2), made by `real` with so many entries and these flags.
pub fn entering(
    fd: usize,
    to_submit: usize,
    flags: usize,
    real: impl FnOnce(usize, usize) -> c_long,
) -> c_long {
    let entering = uring::before_enter(fd as c_int, to_submit as c_uint, flags as c_uint);
    let result = real(entering.to_submit as usize, entering.flags as usize);
    if entering.is_followed() {
        errno::keep(|| entering.done(result as isize));
    }
    result
}

/// Before io_uring_register(2).
pub fn registering(fd: usize, operation: usize, argument: usize, count: usize) {
    uring::before_register(fd as c_int, operation as c_uint, argument, count as c_uint);
}

/// liburing's function of this name, wherever it was loaded: a plugin's own libraries are not in
/// the scope that RTLD_NEXT searches, but their calls come to us all the same.
struct RealOfLiburing {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    /// Is it of a version whose `struct io_uring` we know?
    known: AtomicBool,
}

impl RealOfLiburing {
    const fn new(name: &'static CStr) -> RealOfLiburing {
        RealOfLiburing {
            name,
            address: AtomicPtr::new(null_mut()),
            known: AtomicBool::new(false),
        }
    }

    /// Null when liburing is not loaded: it may be later, so that is not remembered.
    fn get(&self) -> *mut c_void {
        let mut address = self.address.load(Acquire);
        if address.is_null() {
            address = errno::keep(|| self.find());
            self.known.store(is_version_2(address), Release);
            self.address.store(address, Release);
        }
        address
    }

    fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    fn find(&self) -> *mut c_void {
        // SAFETY: C strings; a library that is already loaded stays so for its caller. The messages
        // of failed lookups are taken back.
        unsafe {
            let mut address = libc::dlsym(RTLD_NEXT, self.name.as_ptr());
            for library in LIBRARIES {
                if address.is_null() {
                    let handle = libc::dlopen(library.as_ptr(), RTLD_NOW | RTLD_NOLOAD);
                    if !handle.is_null() {
                        address = libc::dlsym(handle, self.name.as_ptr());
                        libc::dlclose(handle);
                    }
                }
            }
            if address.is_null() {
                libc::dlerror();
            }
            address
        }
    }
}

/// Is this address in a library of the name that liburing has since version 2? Other programs may have it compiled in.
fn is_version_2(address: *const c_void) -> bool {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: room for the answer, whose name is that of a loaded library.
    unsafe {
        if address.is_null() || libc::dladdr(address, found.as_mut_ptr()) == 0 {
            return false;
        }
        let name = found.assume_init().dli_fname;
        if name.is_null() {
            return false;
        }
        let path = CStr::from_ptr(name).to_bytes();
        let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        [&b"liburing.so.2"[..], b"liburing-ffi.so.2"]
            .iter()
            .any(|known| file.starts_with(known))
    }
}

/// Functions of liburing's that return a number, which is negative for an error. `known` says whether it is of a version
/// that we know; `before` runs before the real one, `after` when that has not failed.
macro_rules! liburing {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $(before $before:expr)?; $(after $after:expr;)?)*) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                static REAL: RealOfLiburing = RealOfLiburing::new(c_name!($name));
                let real = REAL.get();
                if real.is_null() {
                    return -ENOSYS;
                }
                // SAFETY: liburing's function of this name, with the program's own arguments; what it is given is the
                // program's structure.
                unsafe {
                    $(($before)(REAL.is_known());)?
                    let real = transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> c_int>(real);
                    let result = real($($arg),*);
                    $(if result >= 0 {
                        errno::keep(|| ($after)(REAL.is_known(), result));
                    })?
                    result
                }
            }
        )*
    };
}

type Ring = *mut Liburing;

liburing! {
    fn io_uring_queue_init(entries: c_uint, ring: Ring, flags: c_uint);
    after |known, _| uring::made_by_liburing(ring, known);
    fn io_uring_queue_init_params(entries: c_uint, ring: Ring, params: *mut c_void);
    after |known, _| uring::made_by_liburing(ring, known);
    /// Since liburing 2.5, like the next one.
    fn io_uring_queue_init_mem(entries: c_uint, ring: Ring, params: *mut c_void, memory: *mut c_void, size: usize);
    after |known, _| uring::made_by_liburing(ring, known);
    fn io_uring_queue_init_try_nosqarr(entries: c_uint, ring: Ring, params: *mut c_void);
    after |known, _| uring::made_by_liburing(ring, known);
    fn io_uring_setup(entries: c_uint, params: *mut c_void);
    after |_, fd| uring::made(fd, params.cast());

    /// Since liburing 2.7.
    fn io_uring_submit_and_wait_min_timeout(ring: Ring, cqes: *mut c_void, count: c_uint, time: *mut c_void, least: c_uint, mask: *mut sigset_t)
    before |known| { uring::stop(ring, known); uring::before_submit(ring, known) };
    /// Since liburing 2.8.
    fn io_uring_submit_and_wait_reg(ring: Ring, cqes: *mut c_void, count: c_uint, index: c_int)
    before |known| { uring::stop(ring, known); uring::before_submit(ring, known) };

    fn io_uring_register_eventfd(ring: Ring, fd: c_int)
    before |known| uring::stop(ring, known);
    fn io_uring_register_eventfd_async(ring: Ring, fd: c_int)
    before |known| uring::stop(ring, known);
    fn io_uring_unregister_eventfd(ring: Ring)
    before |known| uring::stop(ring, known);
    /// Since liburing 2.3.
    fn io_uring_register_sync_cancel(ring: Ring, what: *mut c_void)
    before |known| uring::stop(ring, known);
    fn io_uring_register_files(ring: Ring, files: *const c_int, count: c_uint)
    before |_| uring::before_register_files(files, count);
    fn io_uring_register_files_tags(ring: Ring, files: *const c_int, tags: *const u64, count: c_uint)
    before |_| uring::before_register_files(files, count);
    fn io_uring_register_files_update(ring: Ring, offset: c_uint, files: *const c_int, count: c_uint)
    before |_| uring::before_register_files(files, count);
    fn io_uring_register_files_update_tag(ring: Ring, offset: c_uint, files: *const c_int, tags: *const u64, count: c_uint)
    before |_| uring::before_register_files(files, count);
    fn io_uring_register(fd: c_uint, operation: c_uint, argument: *const c_void, count: c_uint)
    before |_| uring::before_register(fd as c_int, operation, argument as usize, count);
    /// It may forbid the operation that tells a result.
    fn io_uring_register_restrictions(ring: Ring, list: *mut c_void, count: c_uint)
    before |_| api::uring_is_unseen();
    /// From here on nobody can say which one it is.
    fn io_uring_close_ring_fd(ring: Ring)
    before |_| api::uring_is_unseen();
}

/// Functions of liburing's that may be served without the kernel: `call` says what they do, `real` makes the call, in this way.
macro_rules! served {
    ($(fn $name:ident($ring:ident $(, $arg:ident: $ty:ty)*) is $call:expr, real |$how:ident| ($($real:expr),*) $(, before |$known:ident| $before:expr)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($ring: Ring, $($arg: $ty),*) -> c_int {
                static REAL: RealOfLiburing = RealOfLiburing::new(c_name!($name));
                let real = REAL.get();
                if real.is_null() {
                    return -ENOSYS;
                }
                // SAFETY: liburing's function of this name, with the program's own arguments; what it is given is the
                // program's structure.
                unsafe {
                    let real = transmute::<*mut c_void, unsafe extern "C" fn(Ring, $($ty),*) -> c_int>(real);
                    $(
                        let $known = REAL.is_known();
                        $before;
                    )?
                    uring::instead($ring, REAL.is_known(), $call, |$how| real($($real),*))
                }
            }
        )*
    };
}

static AT_ONCE: timespec = timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// As many as the program waits for, or none.
fn wanted(count: c_uint, how: Real) -> c_uint {
    match how {
        Real::WithoutWait => 0,
        Real::AsItIs | Real::Rest(_) => count,
    }
}

/// The same of a call that may have a time, and ends with it.
fn wanted_in_time(count: c_uint, given: *mut timespec, how: Real) -> c_uint {
    if given.is_null() {
        wanted(count, how)
    } else {
        count
    }
}

/// The program's time, or what is left of it.
fn time(given: *mut timespec, how: &Real) -> *mut timespec {
    let other = match how {
        Real::AsItIs => return given,
        Real::Rest(left) => left,
        Real::WithoutWait => &AT_ONCE,
    };
    if given.is_null() {
        given
    } else {
        std::ptr::from_ref(other).cast_mut()
    }
}

/// A call that waits for so many completions with this limit.
unsafe fn waiting(
    submits: bool,
    count: c_uint,
    given: *const timespec,
    mask: *const sigset_t,
) -> Call {
    // SAFETY: a bad time is found out, and then by the kernel too.
    let time = unsafe { api::load_if_any(given) }.unwrap_or(Some(AT_ONCE));
    Call {
        submits,
        hears: true,
        wanted: count,
        limit: Limit { time, mask },
    }
}

const NO_WAIT: Call = Call {
    submits: true,
    hears: false,
    wanted: 0,
    limit: Limit::NEVER,
};

type Cqes = *mut c_void;

served! {
    fn io_uring_submit(ring) is NO_WAIT, real |_how| (ring);
    fn io_uring_submit_and_get_events(ring) is Call { hears: true, ..NO_WAIT }, real |_how| (ring);
    fn io_uring_get_events(ring) is Call { submits: false, hears: true, ..NO_WAIT }, real |_how| (ring);
    fn io_uring_submit_and_wait(ring, count: c_uint)
    is waiting(true, count, null(), null()), real |how| (ring, wanted(count, how));
    fn io_uring_submit_and_wait_timeout(ring, cqes: Cqes, count: c_uint, limit: *mut timespec, mask: *mut sigset_t)
    is waiting(true, count, limit, mask), real |how| (ring, cqes, wanted_in_time(count, limit, how), time(limit, &how), mask);
    fn io_uring_wait_cqes(ring, cqes: Cqes, count: c_uint, limit: *mut timespec, mask: *mut sigset_t)
    is waiting(false, count, limit, mask), real |how| (ring, cqes, wanted_in_time(count, limit, how), time(limit, &how), mask),
    before |known| uring::before_wait(ring, known);
    fn io_uring_wait_cqe_timeout(ring, cqes: Cqes, limit: *mut timespec)
    is waiting(false, 1, limit, null()), real |how| (ring, cqes, time(limit, &how)),
    before |known| uring::before_wait(ring, known);
    fn __io_uring_get_cqe(ring, cqe: Cqes, submit: c_uint, count: c_uint, mask: *mut sigset_t)
    is waiting(submit > 0, count, null(), mask), real |how| (ring, cqe, submit, wanted(count, how), mask),
    before |known| if submit > 0 { uring::stop(ring, known) };
}

macro_rules! enter {
    ($($name:ident($($last:ident: $ty:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(fd: c_uint, to_submit: c_uint, least: c_uint, flags: c_uint, $($last: $ty),*) -> c_int {
                type Function = unsafe extern "C" fn(c_uint, c_uint, c_uint, c_uint, $($ty),*) -> c_int;
                static REAL: RealOfLiburing = RealOfLiburing::new(c_name!($name));
                let real = REAL.get();
                if real.is_null() {
                    return -ENOSYS;
                }
                // SAFETY: liburing's function of this name.
                let real = unsafe { transmute::<*mut c_void, Function>(real) };
                let result = entering(fd as usize, to_submit as usize, flags as usize, |to_submit, flags| {
                    // SAFETY: the program's own arguments, or fewer entries.
                    c_long::from(unsafe { real(fd, to_submit as c_uint, least, flags as c_uint, $($last),*) })
                });
                result as c_int
            }
        )*
    };
}

enter! {
    io_uring_enter(mask: *mut sigset_t);
    io_uring_enter2(mask: *mut sigset_t, size: usize);
}

/// Closes the descriptor without libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_queue_exit(ring: Ring) {
    static REAL: RealOfLiburing = RealOfLiburing::new(c"io_uring_queue_exit");
    let real = REAL.get();
    if real.is_null() {
        return;
    }
    // SAFETY: liburing's function of this name, and the program's structure.
    unsafe {
        uring::before_exit(ring, REAL.is_known());
        transmute::<*mut c_void, unsafe extern "C" fn(Ring)>(real)(ring);
    }
}
