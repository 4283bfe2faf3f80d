//! The rings, as the link sees them.

use super::Id;
use crate::crc32c::Crc;

/// `[C5]` Somebody has taken the ring away from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frozen;

/// Where bytes come from and go to. The link asks only for bytes between what is acknowledged and what
/// the host has written, and writes only between what is placed and the credit.
pub trait Streams {
    /// `[W3]` Copies bytes of the sending direction out of its ring, and adds them to the checksum.
    fn fetch(&mut self, id: Id, offset: u64, into: &mut [u8], crc: Crc) -> Crc;

    /// `[W3]` Copies bytes into the ring of the receiving direction, beyond its tail, and adds them to
    /// the checksum.
    fn place(&mut self, id: Id, offset: u64, bytes: &[u8], crc: Crc) -> Crc;

    /// All bytes up to here are there for the reader; `[C7]` if it `ended`, no other follows them. Both in one
    /// step: the peer goes when both are acknowledged.
    fn publish(&mut self, id: Id, offset: u64, ended: bool) -> Result<(), Frozen>;

    /// The peer has all bytes up to here: their space is free.
    fn release(&mut self, id: Id, offset: u64);
}
