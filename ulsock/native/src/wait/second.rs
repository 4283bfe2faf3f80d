//! A wait for a descriptor of ulsock's own, which programs are not shown and no set of theirs takes: by a second one for the same.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use super::source::{Direction, Registration};

/// Its place in the reactor of the task that had to wait first.
#[derive(Debug)]
pub struct Second {
    fd: OwnedFd,
    registration: Registration,
}

impl Second {
    pub fn new(of: impl AsFd) -> io::Result<Second> {
        let fd = rustix::io::fcntl_dupfd_cloexec(of, 0)?;
        let registration = Registration::new(&fd, false)?;
        Ok(Second { fd, registration })
    }

    /// Takes what there is, as soon as the descriptor is readable; `None` from the attempt: there is nothing.
    pub fn poll<T>(
        &self,
        task: &Context<'_>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Poll<io::Result<T>> {
        self.registration.poll(Direction::In, task, |_| {
            attempt().ok_or_else(|| io::ErrorKind::WouldBlock.into())
        })
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        self.registration.end(&self.fd);
    }
}
