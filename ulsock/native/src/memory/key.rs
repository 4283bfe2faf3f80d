//! Keys of regions: who has one can write there.

use std::fmt;
use std::net::SocketAddr;

use rendezvous::codec::{Reader, Writer};

use super::error::MemoryError;

/// What an importer has to know of a region. It is a secret: a program gives it to whom it trusts with the region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RegionKey {
    pub(super) address: SocketAddr,
    pub(super) number: u32,
    pub(super) secret: [u8; 16],
}

impl RegionKey {
    /// Bytes of a key in a message or a file.
    pub const LEN: usize = 38;

    /// Where its exporter listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same region, where others reach its exporter by another address: one that listens at all addresses, say.
    pub fn at(self, address: SocketAddr) -> RegionKey {
        RegionKey { address, ..self }
    }

    pub fn to_bytes(&self) -> [u8; RegionKey::LEN] {
        let written = Writer::<{ RegionKey::LEN }>::default()
            .address(self.address)
            .u32(self.number)
            .put(&self.secret);
        let mut bytes = [0; RegionKey::LEN];
        bytes.copy_from_slice(written.as_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<RegionKey, MemoryError> {
        let mut rest = Reader(bytes);
        let mut read = || {
            Some(RegionKey {
                address: rest.address()?,
                number: rest.u32()?,
                secret: rest.take()?,
            })
        };
        let key = read().filter(|key| key.address.port() != 0);
        key.and_then(|key| rest.ends(key))
            .ok_or(MemoryError::BadKey)
    }
}

/// Without the secret: this may be printed.
impl fmt::Debug for RegionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, number) = (&self.address, &self.number);
        write!(f, "RegionKey({address}, {number})")
    }
}
