//! The frame that a peer sends over IPv4: no options, no fragment, and nothing behind the datagram that IP counts. Read in
//! one piece; every other frame goes through `any`.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use super::checksum::{self, address_sum, fold, pseudo_sum};
use super::{Arrival, ETHERNET, Ecn, IPV4, Offload, UDP};
use crate::wire::Addresses;

pub const HEADERS: usize = ETHERNET + IPV4 + UDP;
const UDP_HEADER: usize = ETHERNET + IPV4;

/// IPv4 (2), version 4 and a header of five words.
const BEGINNING: [u8; 3] = [0x08, 0x00, 0x45];
const UDP_PROTOCOL: u8 = 17;
/// MF and the offset of a fragment: all but DF and the reserved bit.
const FRAGMENT: u16 = 0x3fff;

/// `None` for a frame that is another, or wrong.
#[inline]
pub fn parse(frame: &[u8], offload: Offload) -> Option<Arrival<'_>> {
    let (headers, rest) = frame.split_first_chunk::<HEADERS>()?;
    let word = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
    let is_plain =
        headers[12..15] == BEGINNING && word(20) & FRAGMENT == 0 && headers[23] == UDP_PROTOCOL;
    let (total, length) = (usize::from(word(16)), usize::from(word(38)));
    if !is_plain || length < UDP || total != IPV4 + length {
        return None;
    }
    let payload = rest.get(..length - UDP)?;
    let (_, header) = headers.split_first_chunk::<ETHERNET>()?;
    if sum(header.first_chunk()?) != u16::MAX {
        return None;
    }
    if word(40) != 0 && !offload.udp_received && !is_sound(frame, length) {
        return None;
    }
    Some(Arrival {
        addresses: Addresses {
            source: end(headers, 26, word(34)),
            destination: end(headers, 30, word(36)),
        },
        ecn: Ecn::from_bits(headers[15]),
        payload,
    })
}

/// `[W6]` Whether the UDP checksum of a frame with a datagram of this length is right, or left to a NIC that was never
/// there.
fn is_sound(frame: &[u8], length: usize) -> bool {
    let Some(datagram) = frame.get(UDP_HEADER..UDP_HEADER + length) else {
        return false;
    };
    let addresses = address_sum(&frame[ETHERNET + 12..UDP_HEADER]);
    let is_open = || {
        let field = u16::from_be_bytes([datagram[6], datagram[7]]);
        let is_alone = UDP_HEADER + length == frame.len();
        is_alone && field == pseudo_sum(addresses, length as u16)
    };
    is_open() || checksum::is_right(addresses, datagram)
}

#[inline]
fn end(headers: &[u8; HEADERS], ip: usize, port: u16) -> SocketAddr {
    let [a, b, c, d] = [
        headers[ip],
        headers[ip + 1],
        headers[ip + 2],
        headers[ip + 3],
    ];
    SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port).into()
}

/// The sum of an IPv4 header (RFC 1071), before it is complemented; all ones if the checksum is right.
#[inline]
pub fn sum(header: &[u8; IPV4]) -> u16 {
    // In whatever order the bytes are: the sum only comes out turned round as they are.
    let words = header.as_chunks::<4>().0.iter();
    let sum: u64 = words.map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let halves = (sum & 0xffff_ffff) + (sum >> 32);
    let halves = (halves & 0xffff) + (halves >> 16);
    u16::from_be(fold(halves))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::super::{Route, any};
    use super::*;

    /// With a checksum that is right.
    fn mend(frame: &mut [u8]) {
        frame[24..26].fill(0);
        let header = frame[ETHERNET..].first_chunk().unwrap();
        let sum = !sum(header);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }

    proptest! {
        // [W7] What is read in one piece is what smoltcp reads.
        #[test]
        fn nothing_is_read_otherwise(
            ends: ([u8; 4], [u8; 4], u16, u16),
            changes in prop::collection::vec((12usize..HEADERS, prop_oneof![any::<u8>(), 0u8..64]), 0..3),
            payload in prop::collection::vec(any::<u8>(), 0..100),
            cut in 0usize..5,
            right: bool,
            completed: bool,
            offload in prop_oneof![Just(Offload::default()), Just(Offload { udp_sent: true, udp_received: true })],
        ) {
            let (from, to, source, destination) = ends;
            let addresses = Addresses {
                source: (from, source).into(),
                destination: (to, destination).into(),
            };
            let route = Route::new([2; 6], [4; 6], &addresses).unwrap();
            let mut frame: Vec<u8> = vec![0; HEADERS];
            frame.extend_from_slice(&payload);
            route.emit(&mut frame, Ecn::Capable, payload.len(), offload).unwrap();
            prop_assert!(parse(&frame, offload).is_some());
            prop_assert!(parse(&frame, Offload::default()).is_some());
            if completed {
                frame[40..42].fill(0);
                let addresses = address_sum(&frame[26..34]);
                checksum::fill(addresses, &mut frame[UDP_HEADER..]);
                prop_assert!(parse(&frame, Offload::default()).is_some());
            }
            for (at, value) in changes {
                frame[at] = value;
            }
            if right {
                mend(&mut frame);
            }
            frame.truncate(frame.len() - cut);
            for offload in [offload, Offload::default()] {
                if let Some(datagram) = parse(&frame, offload) {
                    prop_assert_eq!(any::parse(&frame, offload), Ok(datagram));
                }
            }
        }
    }
}
