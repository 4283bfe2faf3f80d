//! The kernel's nouns, and nothing of ours: sockets, descriptors, memory, clocks, users, messages to the user.
//!
//! Everything here goes straight to the kernel: never through a libc wrapper that we interpose
//! (that would re-enter our own hooks), never blocking, never changing `errno`.

pub mod access;
pub mod available;
pub mod backoff;
pub mod byte_lock;
pub mod cgroup;
pub mod clock;
pub mod diag;
pub mod door;
pub mod epoll;
pub mod epoll_info;
pub mod faults;
pub mod fds;
pub mod fetch;
pub mod guarded;
pub mod load;
pub mod log;
pub mod map;
pub mod mapped;
pub mod mask;
pub mod memory;
pub mod mlock;
pub mod pid;
pub mod plain;
pub mod pointer;
pub mod poll;
pub mod proc;
pub mod process_wide;
mod ranges;
pub mod raw;
pub mod rhythm;
pub mod signals;
pub mod sparse;
pub mod spin;
pub mod tcp;
pub mod text;
pub mod translated;
pub mod unix;
pub mod uring;
pub mod users;
pub mod window;
pub mod word;

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, socklen_t};
use rustix::io::{self, Errno};
use rustix::process::{Resource, getrlimit};
use rustix::rand::{GetRandomFlags, getrandom};

/// Reads a socket option into `value` and returns how many bytes the kernel wrote: rustix has typed
/// options only and lacks TCP_INFO and others.
pub fn getsockopt(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut len = socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    let (fd, to) = (fd.as_raw_fd() as usize, value.as_mut_ptr() as usize);
    let args = [fd, level as usize, name as usize, to, &raw mut len as usize];
    // SAFETY: the kernel writes at most `len` bytes into `value`, and both live until the call
    // returns.
    unsafe { raw::syscall(libc::SYS_getsockopt, args)? };
    Ok(value.len().min(len as usize))
}

/// setsockopt(2).
pub fn setsockopt(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    let (fd, from) = (fd.as_raw_fd() as usize, value.as_ptr() as usize);
    let args = [fd, level as usize, name as usize, from, value.len()];
    // SAFETY: the kernel reads `value`, which lives until the call returns.
    unsafe { raw::syscall(libc::SYS_setsockopt, args) }.map(drop)
}

/// Whether a file may grow to `size`: beyond RLIMIT_FSIZE the kernel would send SIGXFSZ, which by
/// default kills the program that we live in.
pub fn may_grow_to(size: u64) -> bool {
    getrlimit(Resource::Fsize)
        .current
        .is_none_or(|limit| size <= limit)
}

/// A message of ours into whatever file the user named, within the same limit.
pub fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    if let Some(limit) = getrlimit(Resource::Fsize).current {
        let stat = rustix::fs::fstat(to)?;
        let end = (stat.st_size as u64).saturating_add(bytes.len() as u64);
        if stat.st_mode & libc::S_IFMT == libc::S_IFREG && end > limit {
            return Err(Errno::FBIG);
        }
    }
    io::write(to, bytes)
}

pub fn is_regular(stat: &rustix::fs::Stat) -> bool {
    use rustix::fs::FileType;
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// A number that no other name in the run directory has. Not a secret.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    if getrandom(&mut bytes, GetRandomFlags::NONBLOCK)? != bytes.len() {
        return Err(Errno::AGAIN);
    }
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_failed_option_reports_and_keeps_errno() {
        let file = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: this thread's own errno.
        unsafe { *libc::__errno_location() = libc::ENFILE };
        let result = getsockopt(file.as_fd(), libc::SOL_SOCKET, libc::SO_TYPE, &mut [0; 4]);
        assert_eq!(result, Err(Errno::NOTSOCK));
        // SAFETY: this thread's own errno.
        assert_eq!(unsafe { *libc::__errno_location() }, libc::ENFILE);
    }
}
