//! A record of the fail-over protocol that is on its way to the kernel.

use netstack::failover::record::LENGTH;

/// A record that has still to be written to the kernel, and how much of it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Owed {
    pub bytes: [u8; LENGTH],
    /// So many of the last ones.
    pub left: u32,
}

impl Owed {
    pub const NONE: Owed = Owed {
        bytes: [0; LENGTH],
        left: 0,
    };
}
