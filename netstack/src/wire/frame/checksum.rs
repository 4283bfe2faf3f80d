//! The checksum of UDP (RFC 768; RFC 8200, 8.1; RFC 1071): over a pseudo header of addresses, protocol and length, and the
//! datagram. Where no NIC does it, it is a quarter to two fifths of a packet's instructions (`benches/link.txt`).

const UDP_PROTOCOL: u8 = 17;
/// Where it is in UDP's header.
const FIELD: usize = 6;

/// The sum of the words of two addresses.
#[inline]
pub fn address_sum(addresses: &[u8]) -> u64 {
    let words = addresses.as_chunks::<2>().0.iter();
    words.map(|word| u64::from(u16::from_be_bytes(*word))).sum()
}

/// What the checksum field holds if hardware completes it.
#[inline]
pub fn pseudo_sum(addresses: u64, counted: u16) -> u16 {
    fold(addresses + u64::from(UDP_PROTOCOL) + u64::from(counted))
}

/// Of addresses with this sum: whether that of a whole datagram is right.
pub fn is_right(addresses: u64, datagram: &[u8]) -> bool {
    let Ok(counted) = u16::try_from(datagram.len()) else {
        return false;
    };
    let pseudo = pseudo_sum(addresses, counted);
    fold(u64::from(pseudo) + words_sum(datagram)) == u16::MAX
}

/// Computes that of a whole datagram, whose header has none yet, and writes it.
pub fn fill(addresses: u64, datagram: &mut [u8]) {
    let pseudo = pseudo_sum(addresses, datagram.len() as u16);
    let sum = !fold(u64::from(pseudo) + words_sum(datagram));
    if let Some(field) = datagram.get_mut(FIELD..FIELD + 2) {
        // Zero would mean that there is none.
        let sum = if sum == 0 { u16::MAX } else { sum };
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// The sum of the words of any number of bytes; the last may lack one.
#[inline]
fn words_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    // In whatever order the bytes are: the sum only comes out turned round as they are. In words of 64 bits and with their
    // carries: two instructions for eight bytes.
    let word = |word: &[u8; 8]| u128::from(u64::from_ne_bytes(*word));
    let sum = words.iter().map(word).sum::<u128>() + word(&last);
    // Of 65 bits, then 34, then 19: nothing is lost.
    let sum = u128::from(sum as u64) + (sum >> 64);
    let sum = (sum as u64 & 0xffff_ffff) + (sum >> 32) as u64;
    u64::from(u16::from_be(fold((sum & 0xffff) + (sum >> 16))))
}

/// What of a sum is beyond 16 bits is added to them.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::net::Ipv6Addr;
    use std::vec::Vec;

    use proptest::prelude::*;
    use smoltcp::wire::UdpPacket;

    use super::*;

    /// Any header but for its length and checksum, and a payload.
    fn datagrams() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![any::<u8>(), Just(0), Just(0xff)];
        prop::collection::vec(byte, 8..1500).prop_map(|mut bytes| {
            let length = bytes.len() as u16;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
            bytes[FIELD..8].fill(0);
            bytes
        })
    }

    proptest! {
        // [W6] As smoltcp computes and checks it.
        #[test]
        fn is_the_one_of_udp(
            ends: ([u8; 16], [u8; 16]),
            datagram in datagrams(),
            change in (0usize..1500, any::<u8>()),
        ) {
            let (from, to) = (Ipv6Addr::from(ends.0), Ipv6Addr::from(ends.1));
            let addresses = address_sum(&ends.0) + address_sum(&ends.1);
            let (mut ours, mut theirs) = (datagram.clone(), datagram);
            fill(addresses, &mut ours);
            UdpPacket::new_unchecked(&mut theirs).fill_checksum(&from.into(), &to.into());
            prop_assert_eq!(&ours, &theirs);
            prop_assert!(is_right(addresses, &ours));
            // Not the length: smoltcp reads so far.
            let (at, value) = change;
            if at < ours.len() && !(4..6).contains(&at) {
                ours[at] ^= value;
                let packet = UdpPacket::new_unchecked(&ours);
                let expected = packet.verify_checksum(&from.into(), &to.into());
                prop_assert_eq!(is_right(addresses, &ours), expected);
            }
        }
    }

    /// Sums that carry, and one of zero.
    #[test]
    fn at_the_edges() {
        let mut longest = std::vec![0xff; 65535];
        longest[FIELD..8].fill(0);
        fill(u64::from(u32::MAX), &mut longest);
        assert!(is_right(u64::from(u32::MAX), &longest));
        assert!(!is_right(0, &[0; 65536]));
        let mut shortest = [0, 0, 0, 0, 0, 8, 0, 0];
        // With the protocol and twice the length all ones.
        let addresses = u64::from(u16::MAX - 17 - 16);
        fill(addresses, &mut shortest);
        assert_eq!(shortest[FIELD..], [0xff, 0xff]);
        assert!(is_right(addresses, &shortest));
    }
}
