//! The end that imports a region and writes into it.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use native::memory::{self, RegionKey};

use super::export::Key;
use crate::edge::{self, give_object, object};
use crate::fiber::{is_alone, wait};
use crate::status::{Error, Status, told};

/// Memory of an exporter, to be written. Any thread may do so.
pub struct Import(memory::Import);

/// Imports the region of this key. ULSOCK_BAD_KEY, ULSOCK_WRONG_KEY, ULSOCK_NO_EXPORTER
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_import_open(
    key: Option<&Key>,
    import: Option<&mut MaybeUninit<*mut Import>>,
) -> Status {
    told(|| {
        give_object(import, || {
            let key = key.ok_or_else(|| Error::bad_argument("the key is a null pointer"))?;
            let key = RegionKey::from_bytes(&key.bytes)?;
            Ok(Import(match is_alone() {
                true => memory::Import::open_blocking(&key)?,
                false => wait(memory::Import::open(&key))??,
            }))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_import_size(import: Option<&Import>) -> usize {
    import.map_or(0, |import| import.0.size())
}

/// Whether a write is a copy into memory that the exporter shares.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_import_is_shared(import: Option<&Import>) -> bool {
    import.is_some_and(|import| import.0.is_shared())
}

/// Why the region cannot be written any more, if it cannot.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_import_check(import: Option<&Import>) -> Status {
    told(|| Ok(object(import)?.0.check()?))
}

/// Puts bytes there. Where the memory is shared they are in place when this returns; else ulsock_import_flush() waits for that.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_import_write(
    import: Option<&Import>,
    offset: usize,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        let import = &object(import)?.0;
        match import.is_shared() || is_alone() {
            true => Ok(import.write_blocking(offset, bytes)?),
            false => Ok(wait(import.write(offset, bytes))??),
        }
    })
}

/// Waits until everything that was written is in place, and its wires have fired.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_import_flush(import: Option<&Import>) -> Status {
    told(|| {
        let import = &object(import)?.0;
        match import.is_shared() || is_alone() {
            true => Ok(import.flush_blocking()?),
            false => Ok(wait(import.flush())??),
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_import_free(import: Option<Box<Import>>) {
    drop(import);
}
