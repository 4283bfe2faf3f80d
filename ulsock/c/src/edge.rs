//! What comes from C and goes there: pointers, texts, buffers.
//!
//! Objects come as `Option<&T>`: the header asks for null or a pointer that the library has given and that is not freed yet.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::slice;
use std::time::Duration;

use crate::status::{Error, Result};

/// An object that must be there.
pub fn object<T>(given: Option<&T>) -> Result<&T> {
    given.ok_or_else(|| Error::bad_argument("the object is a null pointer"))
}

/// Puts a value where the caller wants it. Null: he does not.
pub fn give<T>(place: Option<&mut MaybeUninit<T>>, value: T) {
    if let Some(place) = place {
        place.write(value);
    }
}

/// The place of something that the program will free: null from the beginning of the call on, so that a failure leaves it so.
pub fn nulled<T>(place: &mut MaybeUninit<*mut T>) -> &mut *mut T {
    place.write(std::ptr::null_mut())
}

/// Hands an object over. It is made only if there is a place for it; all that can fail is done by `make`.
pub fn give_object<T>(
    place: Option<&mut MaybeUninit<*mut T>>,
    make: impl FnOnce() -> Result<T>,
) -> Result<()> {
    let place = nulled(place.ok_or_else(no_place)?);
    *place = Box::into_raw(Box::new(make()?));
    Ok(())
}

pub fn no_place() -> Error {
    Error::bad_argument("no place for the new object")
}

/// Whether memory can have so many: a slice of more is undefined.
fn fits<T>(count: usize) -> bool {
    let bytes = count.checked_mul(size_of::<T>());
    bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
}

fn too_many() -> Error {
    Error::bad_argument("more bytes than memory can have")
}

/// The caller's bytes.
///
/// # Safety
/// `len` bytes can be read there, and nobody writes them as long as the call lasts; or `len` is 0.
pub unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8]> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::bad_argument("the bytes are a null pointer")),
        _ if !fits::<u8>(len) => Err(too_many()),
        // SAFETY: the caller's word.
        _ => Ok(unsafe { slice::from_raw_parts(at.cast(), len) }),
    }
}

/// The caller's buffer.
///
/// # Safety
/// `len` bytes can be written there, and nobody else uses them as long as the call lasts; or `len` is 0. They may be
/// uninitialised: they are only written.
pub unsafe fn room<'a>(at: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Error::bad_argument("the buffer is a null pointer")),
        _ if !fits::<u8>(len) => Err(too_many()),
        // SAFETY: the caller's word. Bytes have no invalid values that anybody would read here.
        _ => Ok(unsafe { slice::from_raw_parts_mut(at.cast(), len) }),
    }
}

/// The caller's places for values.
///
/// # Safety
/// `count` of them are there, and nobody else uses them as long as the call lasts; or `count` is 0.
pub unsafe fn slots<'a, T>(at: *mut T, count: usize) -> Result<&'a mut [MaybeUninit<T>]> {
    match (at.is_null(), count) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Error::bad_argument("the array is a null pointer")),
        _ if !fits::<T>(count) => Err(too_many()),
        // SAFETY: the caller's word.
        _ => Ok(unsafe { slice::from_raw_parts_mut(at.cast(), count) }),
    }
}

/// The caller's text.
///
/// # Safety
/// It is null, or ends with a zero.
pub unsafe fn text<'a>(at: *const c_char) -> Result<&'a str> {
    if at.is_null() {
        return Err(Error::bad_argument("the text is a null pointer"));
    }
    // SAFETY: the caller's word.
    let text = unsafe { CStr::from_ptr(at) };
    let text = text.to_str();
    text.map_err(|_| Error::bad_argument("the text is not UTF-8"))
}

/// Bytes of an address as text, with the zero at its end.
pub const ADDRESS: usize = 64;

/// An address as text: `192.0.2.1:80`, `[2001:db8::1]:80`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Address {
    pub text: [c_char; ADDRESS],
}

impl Address {
    pub fn new(address: impl std::fmt::Display) -> Address {
        let mut text = [0; ADDRESS];
        let written = address.to_string();
        // The longest, of IPv6 with a scope, has 58 bytes.
        for (place, byte) in text[..ADDRESS - 1].iter_mut().zip(written.bytes()) {
            *place = byte.cast_signed();
        }
        Address { text }
    }

    pub fn none() -> Address {
        Address { text: [0; ADDRESS] }
    }
}

/// An address without a name that would have to be looked up.
pub fn numeric(text: &str) -> Result<SocketAddr> {
    let wrong = |_| Error::bad_argument(format!("\"{text}\" is no address like 192.0.2.1:80"));
    text.parse().map_err(wrong)
}

/// How long a call may wait: so many milliseconds; a negative number: as long as it takes.
pub fn time(milliseconds: i64) -> Option<Duration> {
    Some(Duration::from_millis(u64::try_from(milliseconds).ok()?))
}
