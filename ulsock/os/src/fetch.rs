//! Asking for cache lines before they are needed. These are hints: they change and fault nothing.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;

/// The cache line where `at` begins will be read.
#[inline(always)]
pub fn fetch_to_read<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, valid for any address.
    unsafe {
        asm!("prefetcht0 [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The cache line where `at` begins will be written.
#[inline(always)]
pub fn fetch_to_write<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, valid for any address.
    unsafe {
        asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The line where `at` begins, and the next one.
#[inline(always)]
pub fn fetch_two_to_read<T>(at: *const T) {
    fetch_to_read(at);
    fetch_to_read(at.cast::<u8>().wrapping_add(64));
}

/// The same, to be written.
#[inline(always)]
pub fn fetch_two_to_write<T>(at: *const T) {
    fetch_to_write(at);
    fetch_to_write(at.cast::<u8>().wrapping_add(64));
}

/// Eight lines from there on will be written.
#[inline(always)]
pub fn fetch_eight_to_write<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, valid for any address.
    unsafe {
        asm!(
            "prefetchw [{0}]",
            "prefetchw [{0} + 64]",
            "prefetchw [{0} + 128]",
            "prefetchw [{0} + 192]",
            "prefetchw [{0} + 256]",
            "prefetchw [{0} + 320]",
            "prefetchw [{0} + 384]",
            "prefetchw [{0} + 448]",
            in(reg) at,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
