//! Mappings of our own, and the barrier that makes unmapping safe.

use libc::c_int;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::mapped;
use crate::raw;
use crate::sparse;

/// Zeroed memory of this process alone (a forked child gets a copy); pages cost nothing until touched.
pub fn reserve_private(size: usize) -> Option<*mut u8> {
    reserve(size, MapFlags::PRIVATE)
}

/// Zeroed memory that a process shares with the children that it forks later.
pub fn reserve_shared(size: usize) -> Option<*mut u8> {
    reserve(size, MapFlags::SHARED)
}

fn reserve(size: usize, kind: MapFlags) -> Option<*mut u8> {
    let base = sparse::map(None, size, ProtFlags::READ | ProtFlags::WRITE, kind).ok()?;
    if kind == MapFlags::PRIVATE {
        mapped::add_private(size);
    } else {
        mapped::add(size);
    }
    Some(base)
}

/// The same for tables of pointers to what we have allocated: a leak checker in the program, which
/// does not look into mappings by itself, is told to.
pub fn reserve_pointers(size: usize) -> Option<*mut u8> {
    let base = reserve_private(size)?;
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__lsan_register_root_region".as_ptr()) };
    if found.is_null() {
        // SAFETY: no arguments; it takes back the message that the program must not find.
        unsafe { libc::dlerror() };
    } else {
        // SAFETY: sanitizer/lsan_interface.h declares it so; the mapping stays for ever.
        unsafe {
            let register: unsafe extern "C" fn(*const u8, usize) = std::mem::transmute(found);
            register(base, size);
        }
    }
    Some(base)
}

/// Registers this process for [`barrier_in_all_threads`].
pub fn init() {
    let _ = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

/// A full memory barrier in every running thread of this process.
pub fn barrier_in_all_threads() {
    let _ = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

/// Has the kernel barriers of that kind?
pub fn has_barriers() -> bool {
    let expedited = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED as usize;
    membarrier(libc::MEMBARRIER_CMD_QUERY).is_ok_and(|known| known & expedited != 0)
}

fn membarrier(command: c_int) -> Result<usize, Errno> {
    // SAFETY: takes no pointers.
    unsafe { raw::syscall(libc::SYS_membarrier, [command as usize, 0, 0]) }
}
