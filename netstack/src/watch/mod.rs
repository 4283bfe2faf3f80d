//! Tripwires on memory that others write: how a writer finds the wires that its write has touched, and how their owner hears.
//!
//! The owner of a region arms wires in a table that writers only read ([`Armed`]). A writer copies its bytes, and then looks there;
//! what it has touched it notes in a [`Mail`] that it shares with the owner alone, and rings only if the owner [sleeps](Sleep). A
//! wire that is noted already is not noted again: so nothing is ever full, and no event is lost.
//!
//! Each side writes, fences, and then looks at what the other has written: bytes and table, mail and sleep. So one of the two sees
//! the other.

mod armed;
mod mail;
#[cfg(all(test, not(loom)))]
mod tests;

pub use armed::{Armed, Blocks};
pub use mail::{Mail, Sleep};

/// Wires stand in groups, so that a block of the region can name those that may concern it in one word.
#[cfg(not(loom))]
pub const GROUPS: usize = 64;
#[cfg(not(loom))]
pub const PER_GROUP: usize = 16;
/// Of a region at most.
#[cfg(not(loom))]
pub const BLOCKS: usize = 1024;

/// Loom looks at each of them.
#[cfg(loom)]
pub const GROUPS: usize = 2;
#[cfg(loom)]
pub const PER_GROUP: usize = 2;
#[cfg(loom)]
pub const BLOCKS: usize = 2;

/// That a region can have at a time.
pub const WIRES: usize = GROUPS * PER_GROUP;

/// The numbers of the bits that are set.
pub fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let next = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (next < u64::BITS).then_some(next as usize)
    })
}
