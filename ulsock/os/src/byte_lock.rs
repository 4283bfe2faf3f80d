//! Locks on single bytes of a file that belong to the open file (fcntl(2), F_OFD_SETLK): they end with its last
//! descriptor, in whatever process that is, and can be asked for without being taken.
//!
//! Only who may write a file can hold one; so nobody else can make it seem held.

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{F_OFD_GETLK, F_OFD_SETLK, F_RDLCK, F_UNLCK, F_WRLCK, c_int, flock};
use rustix::io::{self, Errno};

use crate::raw;

/// Takes the lock. `false`: another open file has it.
pub fn hold(fd: BorrowedFd<'_>, byte: u8) -> io::Result<bool> {
    match control(fd, F_OFD_SETLK, F_WRLCK, byte) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Does another open file have the lock?
pub fn is_held(fd: BorrowedFd<'_>, byte: u8) -> io::Result<bool> {
    // Readers' locks, which anybody can take who may read the file, do not stand in a reader's way.
    let found = control(fd, F_OFD_GETLK, F_RDLCK, byte)?;
    Ok(found != F_UNLCK)
}

/// The kind of lock that the kernel tells of.
fn control(fd: BorrowedFd<'_>, command: c_int, kind: c_int, byte: u8) -> io::Result<c_int> {
    let mut lock = flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte.into(),
        l_len: 1,
        l_pid: 0,
    };
    let (fd, at) = (fd.as_raw_fd() as usize, &raw mut lock as usize);
    // SAFETY: the kernel reads and writes one struct flock, which lives until the call returns.
    unsafe { raw::syscall(libc::SYS_fcntl, [fd, command as usize, at])? };
    Ok(lock.l_type.into())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_lock_lasts_as_long_as_its_open_file() {
        let path = std::env::temp_dir().join(format!("ulsock-lock-{:x}", crate::random().unwrap()));
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options.open(&path).unwrap()
        };
        let (one, two) = (open(), open());
        assert!(!is_held(two.as_fd(), 0).unwrap());
        assert!(hold(one.as_fd(), 0).unwrap());
        assert!(is_held(two.as_fd(), 0).unwrap() && !is_held(two.as_fd(), 1).unwrap());
        assert!(!hold(two.as_fd(), 0).unwrap() && hold(two.as_fd(), 1).unwrap());
        let twin = one.try_clone().unwrap();
        drop(one);
        assert!(is_held(two.as_fd(), 0).unwrap());
        drop(twin);
        assert!(!is_held(two.as_fd(), 0).unwrap());
        let reader = File::open(&path).unwrap();
        assert!(
            hold(reader.as_fd(), 0).is_err(),
            "of a file that it can only read"
        );
        std::fs::remove_file(&path).unwrap();
    }
}
