//! Pointers that the program gives: those that cannot be good are found out, for the price of a
//! comparison. The kernel says EFAULT to them, and so do we, or leave it to the kernel.
//!
//! A pointer to where a mapping could be, and is not, is not found out: only the kernel can copy from
//! there and live.

use rustix::param::page_size;

use crate::raw;

/// Below this nothing is mapped (vm.mmap_min_addr), but by programs that emulate other machines.
const LOWEST: usize = 64 << 10;
/// Where user space ends with four levels of page tables; with five a program has to ask for more.
const END: usize = (1 << 47) - 4096;

/// Why bytes cannot be copied there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No program's memory: the kernel refuses the call.
    Refused,
    /// The kernel finds out when it copies.
    AtCopy,
}

/// `None` unless the range is bad for certain.
#[inline]
pub fn fault<T>(at: *const T, len: usize) -> Option<Fault> {
    let at = at as usize;
    if at >= LOWEST && len <= END && at <= END - len {
        return None;
    }
    odd(at, len)
}

/// Would the kernel say EFAULT?
#[inline]
pub fn is_bad<T>(at: *const T, len: usize) -> bool {
    fault(at, len).is_some()
}

/// One that is seldom good: somebody may have mapped something there all the same.
#[cold]
fn odd(at: usize, len: usize) -> Option<Fault> {
    let last = at.checked_add(len.saturating_sub(1));
    if last.is_some_and(|last| is_mapped(at) && is_mapped(last)) {
        return None;
    }
    Some(match last {
        Some(last) if last < END => Fault::AtCopy,
        _ => Fault::Refused,
    })
}

fn is_mapped(at: usize) -> bool {
    let (page, mut state) = (at - at % page_size(), 0u8);
    let args = [page, 1, &raw mut state as usize];
    // SAFETY: mincore writes one byte for one page, and touches nothing else.
    unsafe { raw::syscall(libc::SYS_mincore, args) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones_are_good() {
        let here = [0u8; 100];
        assert_eq!(fault(here.as_ptr(), here.len()), None);
        assert_eq!(fault(here.as_ptr(), usize::MAX), Some(Fault::Refused));
        assert_eq!(fault((END - 100) as *const u8, 100), None);
    }

    #[test]
    fn bad_ones_are_told_apart() {
        for at in [0usize, 8, 4096, LOWEST - 1] {
            assert_eq!(fault(at as *const u8, 10), Some(Fault::AtCopy), "{at}");
        }
        for at in [END - 5, END, 1 << 47, 1 << 63, usize::MAX - 5, usize::MAX] {
            assert_eq!(fault(at as *const u8, 10), Some(Fault::Refused), "{at}");
        }
    }
}
