//! A system call past libc, which no library sees.

use std::arch::asm;
use std::ffi::c_long;

pub fn syscall<const N: usize>(number: c_long, args: [usize; N]) -> isize {
    let arg = |at: usize| args.get(at).copied().unwrap_or(0);
    let result: isize;
    // SAFETY: the kernel's calling convention; the callers' pointers live across the call.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
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
    result
}
