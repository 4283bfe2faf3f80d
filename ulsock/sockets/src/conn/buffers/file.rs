//! A file as the source of a transfer.

use std::os::fd::{AsRawFd, BorrowedFd};

use netstack::ring::Source;
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::Outgoing;
use os::raw;

/// A file that `sendfile` sends from.
pub struct File<'a> {
    pub file: BorrowedFd<'a>,
    /// `None`: from the file's own position, which moves.
    pub offset: Option<u64>,
    /// Why the file gave less than it was asked for.
    pub error: Option<Errno>,
}

impl Source for File<'_> {
    unsafe fn give(&mut self, to: *mut u8, len: usize) -> usize {
        let (file, to) = (self.file.as_raw_fd() as usize, to as usize);
        // A ring, which the peer can write at the same time: no slice of it is made.
        // SAFETY: the kernel writes `len` bytes at most from `to` on, where the caller of `give` has room for them.
        let got = unsafe {
            match self.offset {
                Some(at) => raw::syscall(libc::SYS_pread64, [file, to, len, at as usize]),
                None => raw::syscall(libc::SYS_read, [file, to, len]),
            }
        };
        match got {
            Ok(n) => {
                self.offset = self.offset.map(|at| at + n as u64);
                n
            }
            Err(error) => {
                self.error = Some(error);
                0
            }
        }
    }
}

impl Outgoing for File<'_> {
    fn kernel_send(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        _flags: SendFlags,
    ) -> Result<usize, Errno> {
        // sendfile(2) has no MSG_DONTWAIT: through a small buffer, peeking at the file's position.
        let mut buffer = [0u8; 16 << 10];
        let want = most.min(buffer.len());
        let got = match self.offset {
            Some(at) => rustix::io::pread(self.file, &mut buffer[..want], at)?,
            None => {
                let at = rustix::fs::tell(self.file)?;
                rustix::io::pread(self.file, &mut buffer[..want], at)?
            }
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let n = if got == 0 {
            0
        } else {
            rustix::net::send(socket, &buffer[..got], flags)?
        };
        match &mut self.offset {
            Some(at) => *at += n as u64,
            None => drop(rustix::fs::seek(
                self.file,
                rustix::fs::SeekFrom::Current(n as i64),
            )?),
        }
        Ok(n)
    }
}
