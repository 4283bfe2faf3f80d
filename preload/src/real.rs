//! The real counterpart of a symbol that is exported by hand.
//!
//! redhook ends the program when a symbol is missing from its libc; here a missing one answers
//! ENOSYS, so that the library also loads with a glibc that lacks the newest wrappers.

use crate::errno;
use libc::{ENOSYS, RTLD_NEXT, c_long, c_void};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(null_mut()),
        }
    }

    /// Relaxed is enough: the address leads to code, which the loader has put in place before.
    pub fn get(&self) -> *mut c_void {
        let address = self.address.load(Relaxed);
        if address.is_null() {
            return self.resolve();
        }
        address
    }

    /// At load, and for calls from other libraries' constructors. Two threads that meet here store
    /// the same address.
    #[cold]
    fn resolve(&self) -> *mut c_void {
        // SAFETY: the name is a C string; RTLD_NEXT asks for the definition behind ours.
        let mut address = unsafe { libc::dlsym(RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            // SAFETY: no arguments; it takes back the message that the program must not find.
            unsafe { libc::dlerror() };
            address = missing as extern "C" fn() -> c_long as *mut c_void;
        }
        self.address.store(address, Relaxed);
        address
    }
}

/// Stands in for a function that this libc does not have. It ignores its arguments, which in this
/// calling convention the caller cleans up.
extern "C" fn missing() -> c_long {
    errno::fail(ENOSYS) as c_long
}
