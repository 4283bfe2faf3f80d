//! The name of a connection.

use std::os::fd::RawFd;

/// Names a connection across sleeps: while nobody looks, the fd may be closed and its record serve
/// another socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    pub number: u32,
    pub fd: RawFd,
    pub generation: u32,
}

impl Handle {
    /// The same connection at another of its numbers.
    pub fn at(self, fd: RawFd) -> Handle {
        Handle { fd, ..self }
    }

    /// The connection in one word, never zero, without the highest bit.
    pub fn name(&self) -> u64 {
        u64::from(self.generation << 1) << 31 | u64::from(self.number + 1)
    }
}
