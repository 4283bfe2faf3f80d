//! A system call by its number, for what rustix lacks. libc's `syscall` is one of our hooks, and
//! would lead a call of ours back into the sockets layer; clippy.toml forbids it here.

use std::arch::asm;

use libc::c_long;
use rustix::io::{self, Errno};

/// The kernel's answers from -4095 to -1 are errors.
const LARGEST_ERROR: usize = 4095;

/// Leaves `errno` alone.
///
/// # Safety
/// As the system call of this number.
#[inline]
pub unsafe fn syscall<const N: usize>(number: c_long, args: [usize; N]) -> io::Result<usize> {
    const { assert!(N <= 6) };
    let arg = |at: usize| args.get(at).copied().unwrap_or(0);
    let result: usize;
    // SAFETY: the registers are the kernel's calling convention; it overwrites rcx and r11 only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as usize => result,
            in("rdi") arg(0),
            in("rsi") arg(1),
            in("rdx") arg(2),
            in("r10") arg(3),
            in("r8") arg(4),
            in("r9") arg(5),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer(result)
}

/// What the kernel's answer in the register means.
#[inline]
pub(super) fn answer(result: usize) -> io::Result<usize> {
    match result.wrapping_neg() {
        error @ 1..=LARGEST_ERROR => Err(Errno::from_raw_os_error(error as i32)),
        _ => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors() {
        let pid = std::process::id() as usize;
        // SAFETY: calls without pointers; the second names a bad descriptor.
        unsafe {
            assert_eq!(syscall(libc::SYS_getpid, []), Ok(pid));
            assert_eq!(syscall(libc::SYS_close, [usize::MAX]), Err(Errno::BADF));
        }
    }
}
