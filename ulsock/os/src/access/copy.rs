//! The copy between the program's memory and ours, with a fix-up as the kernel's own copies have: a
//! fault at one of its instructions, known by its address, makes it return an error
//! (`sockets::runtime::signal` moves the thread there). No other instruction of ours may touch memory that
//! the program has named and nobody has looked at.
//!
//! It replaces libc's memcpy, whose instructions nobody can know, and is made like it: all of a
//! small piece is loaded before it is stored, larger ones go by 128 bytes, the largest by the
//! processor's own means.

use std::arch::{global_asm, x86_64};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// May the vectors of 32 bytes be used?
static WIDE: AtomicBool = AtomicBool::new(false);
/// From this length on `rep movsb` is fastest; as glibc has it where that is fast at all.
static REP_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
const REP_USUALLY_FROM: usize = 2112;

/// In two registers.
#[repr(C)]
struct Loaded {
    word: u64,
    failed: usize,
}

unsafe extern "C" {
    /// Zero when all `len` bytes were copied.
    fn ulsock_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
    /// Zero if the byte can be read.
    fn ulsock_touch(at: *const u8) -> usize;
    /// Eight bytes.
    fn ulsock_load(at: *const u64) -> Loaded;
    /// Zero if the byte can be read, and written: it is, with what was there.
    fn ulsock_touch_to_write(at: *mut u8) -> usize;
    /// Where a fault of these goes on; the end of their instructions.
    static ulsock_copy_faulted: u8;
}

global_asm!(
    ".pushsection .text.ulsock_copy, \"ax\", @progbits",
    ".globl ulsock_copy, ulsock_touch, ulsock_load, ulsock_touch_to_write, ulsock_copy_faulted",
    ".hidden ulsock_copy, ulsock_touch, ulsock_load, ulsock_touch_to_write, ulsock_copy_faulted",
    ".balign 64",
    // The first of all, so that the range begins here.
    "ulsock_copy:",
    ".cfi_startproc",
    "cmp rdx, 16",
    "jb 5f",
    "cmp rdx, 32",
    "ja 2f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    "2:",
    "cmp rdx, 64",
    "ja 3f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + rdx - 32]",
    "movups xmm3, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "xor eax, eax",
    "ret",
    "3:",
    "cmp rdx, 128",
    "ja 4f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "movups xmm4, [rsi + rdx - 64]",
    "movups xmm5, [rsi + rdx - 48]",
    "movups xmm6, [rsi + rdx - 32]",
    "movups xmm7, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm2",
    "movups [rdi + 48], xmm3",
    "movups [rdi + rdx - 64], xmm4",
    "movups [rdi + rdx - 48], xmm5",
    "movups [rdi + rdx - 32], xmm6",
    "movups [rdi + rdx - 16], xmm7",
    "xor eax, eax",
    "ret",
    // More than 128. The last 128 bytes are loaded first and stored last; rcx is where they go.
    "4:",
    "cmp rdx, [rip + {rep_from}]",
    "jae 9f",
    "cmp byte ptr [rip + {wide}], 0",
    "je 7f",
    "vmovdqu ymm4, [rsi + rdx - 128]",
    "vmovdqu ymm5, [rsi + rdx - 96]",
    "vmovdqu ymm6, [rsi + rdx - 64]",
    "vmovdqu ymm7, [rsi + rdx - 32]",
    "lea rcx, [rdi + rdx - 128]",
    ".balign 16",
    "6:",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu ymm2, [rsi + 64]",
    "vmovdqu ymm3, [rsi + 96]",
    "vmovdqu [rdi], ymm0",
    "vmovdqu [rdi + 32], ymm1",
    "vmovdqu [rdi + 64], ymm2",
    "vmovdqu [rdi + 96], ymm3",
    "sub rsi, -128",
    "sub rdi, -128",
    "cmp rdi, rcx",
    "jb 6b",
    "vmovdqu [rcx], ymm4",
    "vmovdqu [rcx + 32], ymm5",
    "vmovdqu [rcx + 64], ymm6",
    "vmovdqu [rcx + 96], ymm7",
    "vzeroupper",
    "xor eax, eax",
    "ret",
    // The same by halves.
    "7:",
    "movups xmm4, [rsi + rdx - 64]",
    "movups xmm5, [rsi + rdx - 48]",
    "movups xmm6, [rsi + rdx - 32]",
    "movups xmm7, [rsi + rdx - 16]",
    "lea rcx, [rdi + rdx - 64]",
    ".balign 16",
    "8:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm2",
    "movups [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "cmp rdi, rcx",
    "jb 8b",
    "movups [rcx], xmm4",
    "movups [rcx + 16], xmm5",
    "movups [rcx + 32], xmm6",
    "movups [rcx + 48], xmm7",
    "xor eax, eax",
    "ret",
    "9:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // Less than 16: two pieces that overlap, or three single bytes of which some may be one.
    "5:",
    "cmp edx, 8",
    "jb 6f",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "6:",
    "cmp edx, 4",
    "jb 7f",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "7:",
    "test edx, edx",
    "jz 8f",
    "mov r8d, edx",
    "shr r8d, 1",
    "movzx eax, byte ptr [rsi]",
    "movzx r9d, byte ptr [rsi + r8]",
    "movzx ecx, byte ptr [rsi + rdx - 1]",
    "mov [rdi], al",
    "mov [rdi + r8], r9b",
    "mov [rdi + rdx - 1], cl",
    "8:",
    "xor eax, eax",
    "ret",
    "ulsock_touch:",
    "movzx eax, byte ptr [rdi]",
    "xor eax, eax",
    "ret",
    "ulsock_load:",
    "mov rax, [rdi]",
    "xor edx, edx",
    "ret",
    "ulsock_touch_to_write:",
    "movzx eax, byte ptr [rdi]",
    "mov [rdi], al",
    "xor eax, eax",
    "ret",
    "ulsock_copy_faulted:",
    "cmp byte ptr [rip + {wide}], 0",
    "je 2f",
    "vzeroupper",
    "2:",
    "mov eax, 1",
    "mov edx, 1",
    "ret",
    ".cfi_endproc",
    ".popsection",
    rep_from = sym REP_FROM,
    wide = sym WIDE,
);

/// Load time: asks the processor what it is good at.
pub fn init() {
    WIDE.store(std::is_x86_feature_detected!("avx"), Ordering::Relaxed);
    // Leaf 7 is there on every processor with AVX; the ninth bit is "enhanced rep movsb".
    let fast =
        std::is_x86_feature_detected!("avx") && x86_64::__cpuid_count(7, 0).ebx & 1 << 9 != 0;
    if fast {
        REP_FROM.store(REP_USUALLY_FROM, Ordering::Relaxed);
    }
}

/// Where a thread goes on that has faulted at `instruction`; `None` when that is none of these.
pub fn fix_up(instruction: usize) -> Option<usize> {
    let begin = ulsock_copy as *const () as usize;
    let end = &raw const ulsock_copy_faulted as usize;
    (begin..end).contains(&instruction).then_some(end)
}

/// Copies `len` bytes of which one side is the program's. `false`: there is a fault, and some may
/// have been copied.
///
/// # Safety
/// The side that is ours is valid for `len` bytes, and the two do not overlap. A bad pointer on the
/// other ends the process unless faults are caught (`sockets::runtime::signal::fault`).
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> bool {
    // SAFETY: our side is valid for `len` bytes, and the two do not overlap; a fault on the other is caught.
    unsafe { ulsock_copy(to, from, len) == 0 }
}

/// Can this byte be read?
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn touch(at: *const u8) -> bool {
    // SAFETY: one byte is read and thrown away; a fault is caught.
    unsafe { ulsock_touch(at) == 0 }
}

/// Eight bytes.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn load(at: *const u64) -> Option<u64> {
    // SAFETY: eight bytes are read; a fault is caught.
    let Loaded { word, failed } = unsafe { ulsock_load(at) };
    (failed == 0).then_some(word)
}

/// Can this byte be written? It is, so nobody else may be about to.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn touch_to_write(at: *mut u8) -> bool {
    // SAFETY: the byte is written as it is, and nobody else writes it now; a fault is caught.
    unsafe { ulsock_touch_to_write(at) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies_all_lengths() {
        let from: Vec<u8> = (0..10_000_u32).map(|i| (i % 251) as u8).collect();
        for len in (0..600).chain([1023, 1024, 2047, 2111, 2112, 2113, 4096, 9_999]) {
            let mut to = vec![0xee; len + 2];
            // SAFETY: both have room for it.
            assert!(unsafe { copy(to[1..].as_mut_ptr(), from.as_ptr(), len) });
            assert_eq!(to[1..=len], from[..len], "{len}");
            assert_eq!((to[0], to[len + 1]), (0xee, 0xee), "{len}");
        }
    }

    /// One test, for the two words are the whole process's.
    #[test]
    fn copies_by_all_means() {
        for (wide, from) in [(false, usize::MAX), (false, REP_USUALLY_FROM)] {
            WIDE.store(wide, Ordering::Relaxed);
            REP_FROM.store(from, Ordering::Relaxed);
            copies_all_lengths();
        }
        init();
        copies_all_lengths();
        REP_FROM.store(usize::MAX, Ordering::Relaxed);
        copies_all_lengths();
    }
}
