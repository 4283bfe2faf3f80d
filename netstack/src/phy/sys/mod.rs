//! What the ports need from the kernel. Everything goes straight to it: libc's wrappers (also its
//! `syscall`, and the `close` of std's descriptors) are hooks in a process with the preloaded library.

mod fd;
mod map;

use std::arch::asm;
use std::ffi::{c_int, c_long};
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{self, Errno};

pub use fd::Fd;
pub use map::Map;

/// The kernel's answers from -4095 to -1 are errors.
const LARGEST_ERROR: usize = 4095;

/// A system call by its number, for what rustix lacks.
///
/// # Safety
/// As the system call of this number.
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
    match result.wrapping_neg() {
        error @ 1..=LARGEST_ERROR => Err(Errno::from_raw_os_error(error as i32)),
        _ => Ok(result),
    }
}

/// What the kernel may read and write as bytes: an option of a socket, an entry of a ring that it shares.
///
/// # Safety
/// Every pattern of bits is a value, and there is no padding, unless the kernel reads none of it.
pub unsafe trait Plain: Copy {}

// SAFETY: a number.
unsafe impl Plain for c_int {}
// SAFETY: numbers: what SO_MEMINFO tells.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: a number: an address in a UMEM.
unsafe impl Plain for u64 {}
// SAFETY: numbers of 8, 4 and 4 bytes; its options are any bits.
unsafe impl Plain for rustix::net::xdp::XdpDesc {}
// SAFETY: four numbers of one size.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: two numbers of one size.
unsafe impl Plain for libc::tpacket_stats {}

pub fn set_option<T: Plain>(fd: impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd() as usize;
    let value: *const T = value;
    let args = [
        fd,
        level as usize,
        name as usize,
        value as usize,
        size_of::<T>(),
    ];
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a value that outlives the call.
    unsafe { syscall(libc::SYS_setsockopt, args)? };
    Ok(())
}

/// `start` is what the kernel may leave unwritten.
pub fn option<T: Plain>(fd: impl AsFd, level: c_int, name: c_int, start: T) -> io::Result<T> {
    let mut value = start;
    let mut length = size_of::<T>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd() as usize;
    let to = &raw mut value as usize;
    let args = [
        fd,
        level as usize,
        name as usize,
        to,
        &raw mut length as usize,
    ];
    // SAFETY: the kernel writes at most `length` bytes into `value`; both outlive the call, and any
    // bits are a `T`.
    unsafe { syscall(libc::SYS_getsockopt, args)? };
    Ok(value)
}

/// Attaches a classic filter: the kernel copies it.
pub fn attach_filter(fd: impl AsFd, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?,
        // The kernel does not write to it.
        filter: filter.as_ptr().cast_mut(),
    };
    let fd = fd.as_fd().as_raw_fd() as usize;
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_ATTACH_FILTER as usize);
    let args = [
        fd,
        level,
        name,
        &raw const program as usize,
        size_of_val(&program),
    ];
    // SAFETY: the program names `len` instructions that outlive the call.
    unsafe { syscall(libc::SYS_setsockopt, args)? };
    Ok(())
}
