//! The program's memory, as its calls name it: read and written so that a bad pointer is an error
//! and no crash. Where the kernel says EFAULT, so can we.
//!
//! While faults are caught ([`crate::faults`]), which they are as soon as the process has a
//! TCP connection or listens for one, this costs what a copy costs. Before, the kernel is asked: so
//! it must not be done in calls that are frequent and none of our business.

mod copy;

use std::mem::MaybeUninit;

use libc::sigset_t;
use rustix::io::Errno;

use crate::faults;
use crate::raw;

pub use copy::{copy, fix_up, init};

/// On this architecture there is no smaller one.
pub const PAGE: usize = 4096;
/// The kernel's signal set.
const KERNEL_SET: usize = 8;

/// What is there; `None` for a bad pointer.
///
/// # Safety
/// Whatever the bytes are, they are a `T`.
#[inline]
pub unsafe fn load<T: Copy>(from: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    if !may_touch(from, size_of::<T>()) {
        return None;
    }
    // SAFETY: `value` has room for a `T`; it is filled when the copy says so, and whatever the bytes are, they are a `T`.
    unsafe {
        copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()).then(|| value.assume_init())
    }
}

/// The same of eight bytes, at less cost.
///
/// # Safety
/// None but that of a pointer: a bad one is found out.
#[inline]
pub unsafe fn load_word(from: *const u64) -> Option<u64> {
    // SAFETY: any eight bytes are a number.
    may_touch(from, size_of::<u64>())
        .then(|| unsafe { copy::load(from) })
        .flatten()
}

/// The same of a pointer that may be null: then there is nothing.
///
/// # Safety
/// As for [`load`].
#[inline]
pub unsafe fn load_if_any<T: Copy>(from: *const T) -> Option<Option<T>> {
    if from.is_null() {
        return Some(None);
    }
    // SAFETY: whatever the bytes are, they are a `T`, as the caller promises.
    unsafe { load(from).map(Some) }
}

/// Is this no signal mask, or one that can be read?
#[inline]
pub fn is_mask(mask: *const sigset_t) -> bool {
    mask.is_null() || is_readable(mask, KERNEL_SET)
}

/// Puts the value there; `false` for a bad pointer.
#[inline]
pub fn store<T: Copy>(to: *mut T, value: T) -> bool {
    // SAFETY: `value` is ours; what is at `to` is the program's to lose.
    may_touch(to, size_of::<T>())
        && unsafe { copy(to.cast(), (&raw const value).cast(), size_of::<T>()) }
}

/// Can all of it be read? One byte of each page is.
#[inline]
pub fn is_readable<T>(at: *const T, len: usize) -> bool {
    if !may_touch(at, len) {
        return false;
    }
    // SAFETY: nothing is done with what is read.
    let can_read = |at: usize| unsafe { copy::touch(at as *const u8) };
    match is_in_one_page(at as usize, len) {
        true => can_read(at as usize),
        false => pages(at as usize, len).all(can_read),
    }
}

/// The first so many bytes that can be written, up to `len`. They are the program's room for an
/// answer, in which nobody else may write meanwhile: one byte of each page is, with what was there.
#[inline]
pub fn writable<T>(at: *mut T, len: usize) -> usize {
    if !may_touch(at, len.min(1)) {
        return 0;
    }
    let at = at as usize;
    // SAFETY: the byte is left as it is.
    let can_write = |at: usize| unsafe { copy::touch_to_write(at as *mut u8) };
    if is_in_one_page(at, len) {
        return if can_write(at) { len } else { 0 };
    }
    let bad = pages(at, len).find(|page| !can_write(*page));
    bad.map_or(len, |bad| bad - at)
}

/// The usual case, and not empty.
#[inline]
fn is_in_one_page(at: usize, len: usize) -> bool {
    len.wrapping_sub(1) < PAGE - at % PAGE
}

/// Can it be written? It is, with what was there.
#[inline]
pub fn can_write<T>(at: *mut T) -> bool {
    // SAFETY: the byte is left as it is.
    may_touch(at, size_of::<T>()) && unsafe { copy::touch_to_write(at.cast()) }
}

/// The first byte of the range in each page that it touches.
fn pages(at: usize, len: usize) -> impl Iterator<Item = usize> {
    let next = (at & !(PAGE - 1)).saturating_add(PAGE);
    let others = (next..at.saturating_add(len)).step_by(PAGE);
    (len > 0).then_some(at).into_iter().chain(others)
}

/// Faults are caught, or there are none.
#[inline]
fn may_touch<T>(at: *const T, len: usize) -> bool {
    faults::are_caught() || kernel_reads(at as usize, len)
}

/// Can the kernel read all of it? It copies a signal set first, and then finds that this is no way
/// to change the mask.
#[cold]
pub fn kernel_reads(at: usize, len: usize) -> bool {
    pages(at, len).all(|at| {
        let args = [usize::MAX, at & !(KERNEL_SET - 1), 0, KERNEL_SET];
        // SAFETY: changes nothing; a set that lies in one page with the byte is read.
        let answer = unsafe { raw::syscall(libc::SYS_rt_sigprocmask, args) };
        // To the kernel null is no set.
        at >= KERNEL_SET && answer != Err(Errno::FAULT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_what_can_be_read() {
        let here = [1u8; 100];
        assert!(kernel_reads(here.as_ptr() as usize, 100));
        assert!(!kernel_reads(4096, 1));
        assert!(!kernel_reads(1, 1));
    }

    #[test]
    fn knows_the_usual_case() {
        for (at, len, is) in [
            (5, 0, false),
            (5, 1, true),
            (0, PAGE, true),
            (1, PAGE, false),
        ] {
            assert_eq!(is_in_one_page(PAGE + at, len), is, "{at} {len}");
        }
    }

    #[test]
    fn names_each_page_once() {
        let all = |at, len| pages(at, len).collect::<Vec<_>>();
        assert!(all(PAGE + 5, 0).is_empty());
        assert_eq!(all(PAGE + 5, 1), [PAGE + 5]);
        assert_eq!(all(PAGE + 5, PAGE - 5), [PAGE + 5]);
        assert_eq!(all(PAGE + 5, PAGE), [PAGE + 5, 2 * PAGE]);
    }
}
