//! io_uring: its reads and writes pass by all hooks, so a process that makes a ring keeps its
//! sockets on the kernel. Debian's liburing makes system calls of its own, without libc; therefore
//! its functions that make a ring are hooked too.

use libc::{ENOSYS, RTLD_NEXT, RTLD_NOLOAD, RTLD_NOW, c_int, c_long, c_uint, c_void};
use sockets::api;
use std::ffi::CStr;
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::errno;

/// The names under which liburing may be loaded.
const LIBRARIES: [&CStr; 2] = [c"liburing.so.2", c"liburing.so.1"];

/// After a call that may have made a ring; negative means that it has not.
pub fn made(result: c_long) -> c_long {
    if result >= 0 {
        errno::keep(api::io_uring_made);
    }
    result
}

/// liburing's function of this name, wherever it was loaded: a plugin's own libraries are not in
/// the scope that RTLD_NEXT searches, but their calls come to us all the same.
struct RealOfLiburing {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl RealOfLiburing {
    const fn new(name: &'static CStr) -> RealOfLiburing {
        RealOfLiburing {
            name,
            address: AtomicPtr::new(null_mut()),
        }
    }

    /// Null when liburing is not loaded: it may be later, so that is not remembered.
    fn get(&self) -> *mut c_void {
        let mut address = self.address.load(Relaxed);
        if address.is_null() {
            address = errno::keep(|| self.find());
            self.address.store(address, Relaxed);
        }
        address
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

/// liburing's functions return the error itself, negative.
macro_rules! ring_makers {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                static REAL: RealOfLiburing = RealOfLiburing::new(c_name!($name));
                let real = REAL.get();
                if real.is_null() {
                    return -ENOSYS;
                }
                // SAFETY: liburing's function of this name, with the program's own arguments.
                let result = unsafe {
                    transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> c_int>(real)($($arg),*)
                };
                made(c_long::from(result)) as c_int
            }
        )*
    };
}

ring_makers! {
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut c_void);
    /// Since liburing 2.5, like the next two.
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut c_void, memory: *mut c_void, size: usize);
    fn io_uring_queue_init_try_nosqarr(entries: c_uint, ring: *mut c_void, params: *mut c_void);
    fn io_uring_setup(entries: c_uint, params: *mut c_void);
}
