//! The headers of a whole UDP datagram in a frame of its own, as we write them: where they end, and the fields that
//! depend on its length. What hardware does with frames (checksums, segmentation) is described in their terms.

use super::checksum::{address_sum, pseudo_sum};
use super::plain;
use super::{ETHERNET, IPV4, IPV6, UDP};

/// The longest headers.
pub const LONGEST: usize = ETHERNET + IPV6 + UDP;

const ETHERTYPE: core::ops::Range<usize> = 12..14;
/// Version 4 and a header of five words.
const PLAIN: u8 = 0x45;
const UDP_PROTOCOL: u8 = 17;
/// MF and the offset of a fragment: all but DF and the reserved bit.
const FRAGMENT: u16 = 0x3fff;

/// The headers of a frame: which there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outline {
    V4,
    V6,
}

impl Outline {
    /// Of a frame that is one datagram and nothing else: no options, no fragment, no padding, and lengths that agree
    /// with its own. Checksums are not looked at.
    #[inline]
    pub fn of(frame: &[u8]) -> Option<Outline> {
        let outline = match frame.get(ETHERTYPE)? {
            [0x08, 0x00] => Outline::V4,
            [0x86, 0xdd] => Outline::V6,
            _ => return None,
        };
        let headers = frame.get(..outline.overhead())?;
        let counted = match outline {
            Outline::V4 => {
                let is_plain = headers[ETHERNET] == PLAIN
                    && word(headers, ETHERNET + 6) & FRAGMENT == 0
                    && headers[ETHERNET + 9] == UDP_PROTOCOL;
                let total = usize::from(word(headers, ETHERNET + 2));
                is_plain.then(|| total.checked_sub(IPV4)).flatten()?
            }
            Outline::V6 => {
                let is_plain = headers[ETHERNET] >> 4 == 6 && headers[ETHERNET + 6] == UDP_PROTOCOL;
                let counted = usize::from(word(headers, ETHERNET + 4));
                is_plain.then_some(counted)?
            }
        };
        let udp = outline.udp();
        let agrees = counted == usize::from(word(headers, udp + 4)) && udp + counted == frame.len();
        agrees.then_some(outline)
    }

    /// Bytes before the payload.
    #[inline]
    pub fn overhead(self) -> usize {
        self.udp() + UDP
    }

    /// Where the UDP header begins: with it, what its checksum covers.
    #[inline]
    pub fn udp(self) -> usize {
        match self {
            Outline::V4 => ETHERNET + IPV4,
            Outline::V6 => ETHERNET + IPV6,
        }
    }

    /// `[W6]` Whether the checksum of its frame is to be completed by the port.
    #[inline]
    pub fn is_open(self, frame: &[u8]) -> bool {
        let field = self.udp() + 6;
        frame.len() >= self.overhead() && word(frame, field) == self.pseudo_sum(frame)
    }

    /// The sum of the pseudo header (RFC 768, RFC 8200 8.1) of a frame that has these headers.
    #[inline]
    fn pseudo_sum(self, frame: &[u8]) -> u16 {
        let addresses = match self {
            Outline::V4 => &frame[ETHERNET + 12..ETHERNET + 20],
            Outline::V6 => &frame[ETHERNET + 8..ETHERNET + 40],
        };
        pseudo_sum(address_sum(addresses), word(frame, self.udp() + 4))
    }

    /// Whether two frames of these headers differ in nothing but lengths and checksums.
    #[inline]
    pub fn is_same_way(self, one: &[u8], other: &[u8]) -> bool {
        let udp = self.udp();
        let same = |range: core::ops::Range<usize>| one.get(range.clone()) == other.get(range);
        // IPv6 counts the payload in the word that is IPv4's identification.
        same(udp..udp + 4)
            && match self {
                Outline::V4 => same(0..16) && same(18..24) && same(26..udp),
                Outline::V6 => same(0..18) && same(20..udp),
            }
    }

    /// Makes the headers at the front of a frame those of a datagram with so many bytes of payload, whose checksum is
    /// to be completed. `None`, and nothing written, if a datagram cannot be so long.
    pub fn set_length(self, frame: &mut [u8], payload: usize) -> Option<()> {
        let counted = u16::try_from(payload).ok()?.checked_add(UDP as u16)?;
        let headers = frame.get_mut(..self.overhead())?;
        match self {
            Outline::V4 => {
                put(headers, ETHERNET + 2, counted.checked_add(IPV4 as u16)?);
                put(headers, ETHERNET + 10, 0);
                let sum = headers[ETHERNET..].first_chunk().map_or(0, plain::sum);
                put(headers, ETHERNET + 10, !sum);
            }
            Outline::V6 => put(headers, ETHERNET + 4, counted),
        }
        let udp = self.udp();
        put(headers, udp + 4, counted);
        let sum = self.pseudo_sum(headers);
        put(headers, udp + 6, sum);
        Some(())
    }

    /// What a frame cut off behind another has as its identification, if the protocol has one: the next.
    pub fn count_identification(self, headers: &mut [u8]) {
        if self == Outline::V4 && headers.len() >= IPV4 + ETHERNET {
            let next = word(headers, ETHERNET + 4).wrapping_add(1);
            put(headers, ETHERNET + 4, next);
        }
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
