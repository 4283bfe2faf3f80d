//! The end that imports a region and writes into it.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use native::memory::{self, MemoryError, RegionKey};

use super::export::Key;
use crate::edge::{self, give_object, object, time};
use crate::fiber::{is_alone, wait, within};
use crate::status::{Error, Result, Status, told};

/// Memory of an exporter, to be written. Any thread may do so.
pub struct Import(memory::Import);

/// Imports the region of this key, however long its exporter takes to answer. ULSOCK_BAD_KEY, ULSOCK_WRONG_KEY, ULSOCK_NO_EXPORTER
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_import_open(
    key: Option<&Key>,
    import: Option<&mut MaybeUninit<*mut Import>>,
) -> Status {
    told(|| give_object(import, || Ok(Import(open(&checked(key)?)?))))
}

/// The same, but ULSOCK_NOTHING if the exporter has not answered within so many milliseconds (negative: as long as it takes).
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_import_open_within(
    key: Option<&Key>,
    milliseconds: i64,
    import: Option<&mut MaybeUninit<*mut Import>>,
) -> Status {
    told(|| {
        give_object(import, || {
            let key = checked(key)?;
            Ok(Import(match time(milliseconds) {
                None => open(&key)?,
                Some(time) if is_alone() => memory::Import::open_blocking_within(&key, time)?,
                Some(time) => {
                    let opened = within(time, memory::Import::open(&key))?;
                    opened.ok_or(MemoryError::TimedOut)??
                }
            }))
        })
    })
}

fn open(key: &RegionKey) -> Result<memory::Import> {
    Ok(match is_alone() {
        true => memory::Import::open_blocking(key)?,
        false => wait(memory::Import::open(key))??,
    })
}

fn checked(key: Option<&Key>) -> Result<RegionKey> {
    let key = key.ok_or_else(|| Error::bad_argument("the key is a null pointer"))?;
    Ok(RegionKey::from_bytes(&key.bytes)?)
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
