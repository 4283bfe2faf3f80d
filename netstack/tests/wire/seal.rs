//! [W2] What the CRC covers, and what it finds.

use std::net::SocketAddr;

use netstack::wire::{Addresses, Packet, Seal};
use proptest::prelude::*;

use super::draft::{addresses, drafts, some_seal};

/// Where the CRC stands.
const FIELD: std::ops::Range<usize> = 12..16;

fn crc(bytes: &[u8], seal: Seal) -> u32 {
    let packet = Packet::parse(bytes).expect("well-formed");
    seal.head(packet.head()).over(packet.body).value()
}

/// Whether a receiver would take these bytes.
fn is_taken(bytes: &[u8], seal: Seal) -> bool {
    Packet::parse(bytes)
        .is_ok_and(|packet| seal.head(packet.head()).over(packet.body).value() == packet.crc)
}

/// Flips the bits of `pattern`, its lowest one first, from a bit on; those past the end are left out.
fn flip(bytes: &mut [u8], from: usize, pattern: u32) {
    for bit in (0..32).filter(|bit| pattern >> bit & 1 != 0) {
        let at = from + bit;
        if let Some(byte) = bytes.get_mut(at / 8) {
            *byte ^= 0x80 >> (at % 8);
        }
    }
}

/// The ends with one bit of an address or a port changed; both have as many as IPv6 has.
fn changed(addresses: Addresses, bit: usize) -> Addresses {
    let end = |end: SocketAddr, bit: usize| match (bit.checked_sub(128), end) {
        (Some(bit), _) => SocketAddr::new(end.ip(), end.port() ^ 1 << bit),
        (None, SocketAddr::V4(v4)) => {
            let ip = v4.ip().to_bits() ^ 1 << (bit % 32);
            SocketAddr::new(std::net::Ipv4Addr::from_bits(ip).into(), end.port())
        }
        (None, SocketAddr::V6(v6)) => {
            let ip = v6.ip().to_bits() ^ 1 << bit;
            SocketAddr::new(std::net::Ipv6Addr::from_bits(ip).into(), end.port())
        }
    };
    let Addresses {
        source,
        destination,
    } = addresses;
    match bit.checked_sub(144) {
        None => Addresses {
            source: end(source, bit),
            destination,
        },
        Some(bit) => Addresses {
            source,
            destination: end(destination, bit),
        },
    }
}

proptest! {
    #[test]
    fn every_address_and_port_counts(draft in drafts(), addresses in addresses(), bit in 0usize..288, names: (u64, u64)) {
        let other = changed(addresses, bit);
        prop_assert_ne!(other, addresses);
        let seals = |addresses| [Seal::stranger(addresses), Seal::link(addresses, names.0, names.1)];
        for (seal, other) in seals(&addresses).into_iter().zip(seals(&other)) {
            let bytes = draft.bytes(seal);
            prop_assert!(is_taken(&bytes, seal));
            prop_assert!(!is_taken(&bytes, other));
        }
        let swapped = addresses.reversed();
        if swapped != addresses {
            let bytes = draft.bytes(Seal::stranger(&addresses));
            prop_assert!(!is_taken(&bytes, Seal::stranger(&swapped)));
        }
    }

    #[test]
    fn both_incarnations_count(draft in drafts(), addresses in addresses(), sender: u64, receiver: u64, bit in 0u32..64) {
        let bytes = draft.bytes(Seal::link(&addresses, sender, receiver));
        prop_assert!(!is_taken(&bytes, Seal::link(&addresses, sender ^ 1 << bit, receiver)));
        prop_assert!(!is_taken(&bytes, Seal::link(&addresses, sender, receiver ^ 1 << bit)));
        if sender != receiver {
            prop_assert!(!is_taken(&bytes, Seal::link(&addresses, receiver, sender)));
        }
    }

    // [H7] The next incarnation of either end.
    #[test]
    fn a_late_packet_of_the_last_link_does_not_fit(draft in drafts(), addresses in addresses(), sender: u64, receiver: u64) {
        let bytes = draft.bytes(Seal::link(&addresses, sender, receiver));
        prop_assert!(!is_taken(&bytes, Seal::link(&addresses, sender.wrapping_add(1), receiver)));
        prop_assert!(!is_taken(&bytes, Seal::link(&addresses, sender, receiver.wrapping_add(1))));
    }

    #[test]
    fn the_field_itself_does_not_count(draft in drafts(), value: u32) {
        let mut bytes = draft.bytes(some_seal());
        let right = crc(&bytes, some_seal());
        bytes[FIELD].copy_from_slice(&value.to_be_bytes());
        prop_assert_eq!(crc(&bytes, some_seal()), right);
        prop_assert_eq!(is_taken(&bytes, some_seal()), value == right);
    }

    /// A polynomial of degree 32 finds every burst of up to 32 bits, but for those across an edge of
    /// the field, of which it misses one in 2^32 as of other errors.
    #[test]
    fn bursts_are_found(draft in drafts(), at: prop::sample::Index, pattern in 1u32..) {
        let mut bytes = draft.bytes(some_seal());
        let from = at.index(bytes.len() * 8);
        let whole = bytes.clone();
        flip(&mut bytes, from, pattern);
        prop_assume!(bytes != whole);
        prop_assert!(!is_taken(&bytes, some_seal()));
    }
}

// Every bit of a packet of each kind, alone.
#[test]
fn every_bit_counts() {
    for bytes in super::layout::packets().into_iter().map(|(_, bytes)| bytes) {
        let seal = super::layout::seal_of(&bytes);
        assert!(is_taken(&bytes, seal));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            flip(&mut changed, bit, 1);
            assert!(!is_taken(&changed, seal), "bit {bit} of {bytes:x?}");
        }
    }
}
