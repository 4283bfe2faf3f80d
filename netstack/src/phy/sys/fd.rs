//! A descriptor of ours.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Closed by a raw system call.
#[derive(Debug)]
pub struct Fd(ManuallyDrop<OwnedFd>);

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Fd {
        Fd(ManuallyDrop::new(fd))
    }
}

impl Fd {
    /// For an owner that closes it by itself.
    pub fn into_owned(self) -> OwnedFd {
        let mut kept = ManuallyDrop::new(self);
        // SAFETY: nobody uses the field again: it is not dropped.
        unsafe { ManuallyDrop::take(&mut kept.0) }
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours, and nobody can use it after this.
        unsafe { rustix::io::close(self.0.as_raw_fd()) };
    }
}
