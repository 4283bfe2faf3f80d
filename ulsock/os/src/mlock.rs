//! `mlockall` without our sparse mappings: they would be filled, and count against RLIMIT_MEMLOCK.
//!
//! All other mappings are locked one by one, under the kernel's rules for all of them at once: they
//! must fit within the limit, or the process must be privileged.

use libc::{MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT, c_int};
use rustix::process::{Resource, getrlimit};

use crate::proc;
use crate::raw;
use crate::sparse;

pub type RealMlockall = unsafe extern "C" fn(c_int) -> c_int;
type Range = (usize, usize);

/// The whole of `mlockall`.
///
/// # Safety
/// `real` is libc's.
pub unsafe fn mlockall(flags: c_int, real: RealMlockall) -> c_int {
    // SAFETY: libc's function, as the caller promises, which takes a plain number.
    let real = |flags| unsafe { real(flags) };
    let known = flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0;
    let ours = sparse::listed();
    if ours.is_empty() || !known {
        return real(flags);
    }
    match proc::mappings() {
        Ok(all) if flags & MCL_CURRENT != 0 => lock_current(flags, &all, &ours, real),
        _ => lock_future(flags, real),
    }
}

/// In a forked child: nothing is locked.
pub fn after_fork() {
    sparse::lock_future(false);
}

fn lock_future(flags: c_int, real: impl Fn(c_int) -> c_int) -> c_int {
    let result = real(flags);
    if result == 0 {
        sparse::lock_future(flags & MCL_FUTURE != 0);
    }
    result
}

fn lock_current(
    flags: c_int,
    all: &[Range],
    ours: &[Range],
    real: impl Fn(c_int) -> c_int,
) -> c_int {
    let theirs: Vec<Range> = all.iter().flat_map(|range| cut(*range, ours)).collect();
    let limit = getrlimit(Resource::Memlock).current;
    let total: usize = theirs.iter().map(|(begin, end)| end - begin).sum();
    if limit.is_some_and(|limit| total as u64 > limit) {
        // With ours it is more still: the kernel knows whether the process may. Nothing is filled.
        let result = real(MCL_CURRENT | MCL_ONFAULT);
        if result != 0 {
            return result;
        }
    }
    if flags & MCL_FUTURE != 0 {
        let result = lock_future(flags & !MCL_CURRENT, real);
        if result != 0 {
            return result;
        }
    } else if sparse::is_future_locked() {
        // The kernel forgets about the future then, and has no other call for it.
        sparse::lock_future(false);
        // SAFETY: takes no arguments.
        let _ = unsafe { raw::syscall(libc::SYS_munlockall, []) };
    }
    let on_fault = libc::MLOCK_ONFAULT as usize;
    let how = if flags & MCL_ONFAULT != 0 {
        on_fault
    } else {
        0
    };
    theirs.iter().for_each(|range| lock(*range, how));
    if limit.is_none() {
        ours.iter().for_each(|range| lock(*range, on_fault));
    }
    0
}

/// As in the kernel's `mlockall`, what cannot be filled (it may not be touched, say) is no error.
fn lock((begin, end): Range, how: usize) {
    // SAFETY: changes no content; what has been unmapped meanwhile makes it fail.
    let _ = unsafe { raw::syscall(libc::SYS_mlock2, [begin, end - begin, how]) };
}

/// What is left of a range without those of ours, which are in order.
fn cut((begin, end): Range, ours: &[Range]) -> Vec<Range> {
    let (mut left, mut at) = (Vec::new(), begin);
    for (first, last) in ours {
        if *last > at && *first < end {
            left.push((at, *first));
            at = *last;
        }
    }
    left.push((at, end));
    left.retain(|(begin, end)| begin < end);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_ours_out() {
        assert_eq!(cut((10, 20), &[]), [(10, 20)]);
        assert_eq!(cut((10, 20), &[(1, 10), (20, 30)]), [(10, 20)]);
        assert_eq!(
            cut((10, 20), &[(5, 12), (14, 15), (19, 25)]),
            [(12, 14), (15, 19)]
        );
        assert_eq!(cut((10, 20), &[(10, 20)]), []);
    }
}
