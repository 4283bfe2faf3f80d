//! What the CRC covers besides the packet itself.

use core::net::{IpAddr, SocketAddr};

use super::HEADER;
use crate::crc32c::Crc;

/// From where to where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

impl Addresses {
    /// The way back.
    pub fn reversed(self) -> Addresses {
        Addresses {
            source: self.destination,
            destination: self.source,
        }
    }
}

/// `[W2]` The checksum of all that stands before a packet, for one path and direction. Made once.
#[derive(Clone, Copy, Debug)]
pub struct Seal(Crc);

impl Seal {
    /// For the kinds that come before the two know each other.
    pub fn stranger(addresses: &Addresses) -> Seal {
        let end = |crc: Crc, end: SocketAddr| {
            let crc = match end.ip() {
                IpAddr::V4(ip) => crc.over(&ip.octets()),
                IpAddr::V6(ip) => crc.over(&ip.octets()),
            };
            crc.over(&end.port().to_be_bytes())
        };
        Seal(end(
            end(Crc::START, addresses.source),
            addresses.destination,
        ))
    }

    /// For a link: a packet of another incarnation does not fit.
    pub fn link(addresses: &Addresses, sender: u64, receiver: u64) -> Seal {
        let Seal(crc) = Seal::stranger(addresses);
        Seal(
            crc.over(&sender.to_be_bytes())
                .over(&receiver.to_be_bytes()),
        )
    }

    /// Goes on over header and acknowledgement block, with the CRC field as zero. The body follows.
    #[inline]
    pub fn head(self, head: &[u8]) -> Crc {
        let Some((fixed, ack)) = head.split_first_chunk::<HEADER>() else {
            return self.0.over(head);
        };
        let [first, second, third, fourth] = words(fixed);
        // The field is the later half of the second word.
        let second = second & u64::from(u32::MAX);
        let crc = self.0.over_words([first, second, third, fourth]);
        if ack.is_empty() {
            return crc;
        }
        crc.over(ack)
    }
}

#[inline]
fn words(header: &[u8; HEADER]) -> [u64; HEADER / 8] {
    let mut words = [0; HEADER / 8];
    for (word, bytes) in words.iter_mut().zip(header.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}
