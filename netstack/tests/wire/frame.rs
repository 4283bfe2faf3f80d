//! Ethernet, IP and UDP around a packet.

use netstack::wire::Addresses;
use netstack::wire::frame::{Arrival, ETHERNET, Ecn, NotOurs, Offload, Route, overhead, parse};
use proptest::collection::vec;
use proptest::prelude::*;

use super::draft::addresses;

const NONE: Offload = Offload {
    udp_sent: false,
    udp_received: false,
};
const ALL: Offload = Offload {
    udp_sent: true,
    udp_received: true,
};

fn marks() -> impl Strategy<Value = Ecn> {
    proptest::sample::select(vec![
        Ecn::NotCapable,
        Ecn::Capable,
        Ecn::Other,
        Ecn::Congested,
    ])
}

fn frame(addresses: Addresses, ecn: Ecn, payload: &[u8], offload: Offload) -> Vec<u8> {
    let route = Route::new([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], &addresses).unwrap();
    assert_eq!(route.overhead(), overhead(&addresses));
    let mut frame = vec![0xaa; route.overhead()];
    frame.extend_from_slice(payload);
    let length = route.emit(&mut frame, ecn, payload.len(), offload);
    assert_eq!(length, Some(frame.len()));
    frame
}

fn udp_checksum(frame: &[u8], addresses: &Addresses) -> [u8; 2] {
    let at = overhead(addresses) - 2;
    [frame[at], frame[at + 1]]
}

/// RFC 1071 over the pseudo header and the datagram of RFC 768: all ones, if the checksum is right.
fn sum(frame: &[u8], addresses: &Addresses) -> u16 {
    let udp = &frame[overhead(addresses) - 8..];
    let ips = match addresses.source.is_ipv4() {
        true => &frame[ETHERNET + 12..ETHERNET + 20],
        false => &frame[ETHERNET + 8..ETHERNET + 40],
    };
    let words = [ips, udp].into_iter().flat_map(|bytes| bytes.chunks(2));
    let word = |bytes: &[u8]| u32::from(bytes[0]) << 8 | bytes.get(1).copied().map_or(0, u32::from);
    let mut sum = 17 + udp.len() as u32 + words.map(word).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

proptest! {
    #[test]
    fn come_out_as_they_went_in(addresses in addresses(), ecn in marks(), payload in vec(any::<u8>(), 0..2000), padding in 0usize..50) {
        for offload in [NONE, ALL] {
            let mut bytes = frame(addresses, ecn, &payload, offload);
            // Short frames are padded on the way.
            bytes.resize(bytes.len() + padding, 0);
            let read = parse(&bytes, offload);
            prop_assert_eq!(read, Ok(Arrival { addresses, ecn, payload: &payload }));
        }
    }

    // [W6]
    #[test]
    fn the_udp_checksum(addresses in addresses(), payload in vec(any::<u8>(), 0..2000)) {
        let ours = frame(addresses, Ecn::Capable, &payload, NONE);
        let ports = frame(addresses, Ecn::Capable, &payload, ALL);
        // The port adds the datagram to the sum of the pseudo header. Without a port on the way it is just that.
        let mut empty = ports.clone();
        empty[overhead(&addresses) - 8..].fill(0);
        prop_assert_eq!(udp_checksum(&ports, &addresses), sum(&empty, &addresses).to_be_bytes());
        prop_assert!(parse(&ports, NONE).is_ok());
        if addresses.source.is_ipv4() {
            prop_assert_eq!(udp_checksum(&ours, &addresses), [0, 0]);
        } else {
            prop_assert_ne!(udp_checksum(&ours, &addresses), [0, 0]);
            prop_assert_eq!(sum(&ours, &addresses), 0xffff);
        }
    }

    // [W6] A sum that is there is looked at, unless the port has done so.
    #[test]
    fn a_wrong_udp_checksum(addresses in addresses(), payload in vec(any::<u8>(), 1..200), wrong: [u8; 2]) {
        let mut bytes = frame(addresses, Ecn::Capable, &payload, NONE);
        let at = overhead(&addresses) - 2;
        bytes[at..at + 2].copy_from_slice(&wrong);
        let none = wrong == [0, 0] && addresses.source.is_ipv4();
        if !none && sum(&bytes, &addresses) != 0xffff {
            prop_assert_eq!(parse(&bytes, NONE), Err(NotOurs::Checksum));
        }
        prop_assert!(parse(&bytes, ALL).is_ok());
    }

    // [W6] Also where the sum comes out as zero, which would mean that there is none.
    #[test]
    fn a_sum_of_zero_is_sent_as_ones(addresses in addresses()) {
        prop_assume!(addresses.source.is_ipv6());
        let first = frame(addresses, Ecn::Capable, &[0, 0], NONE);
        let payload = udp_checksum(&first, &addresses);
        let second = frame(addresses, Ecn::Capable, &payload, NONE);
        prop_assert_eq!(udp_checksum(&second, &addresses), [0xff, 0xff]);
        prop_assert!(parse(&second, NONE).is_ok());
    }

    #[test]
    fn a_wrong_ip_header(addresses in addresses(), bit in 0usize..160) {
        prop_assume!(addresses.source.is_ipv4());
        let mut bytes = frame(addresses, Ecn::Capable, b"payload", NONE);
        bytes[ETHERNET + bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&bytes, NONE).is_err());
    }

    // [W7]
    #[test]
    fn any_bytes_can_be_read(mut bytes in vec(any::<u8>(), 0..200), ours in 0usize..3, addresses in addresses()) {
        if ours > 0 && bytes.len() > ETHERNET {
            let kind: [u8; 2] = if ours == 1 { [8, 0] } else { [0x86, 0xdd] };
            bytes[12..14].copy_from_slice(&kind);
        }
        let _ = (parse(&bytes, NONE), parse(&bytes, ALL));
        let whole = frame(addresses, Ecn::Capable, &bytes, NONE);
        for length in 0..whole.len() {
            prop_assert!(parse(&whole[..length], ALL).is_err());
        }
    }
}

fn v4() -> Addresses {
    super::draft::some_addresses()
}

/// One with another byte, and the checksum of the IPv4 header made right again.
fn with(at: usize, value: u8) -> Vec<u8> {
    let mut bytes = frame(v4(), Ecn::Capable, b"payload", NONE);
    bytes[at] = value;
    bytes[ETHERNET + 10..ETHERNET + 12].fill(0);
    let length = usize::from(bytes[ETHERNET] & 15) * 4;
    let words = bytes[ETHERNET..ETHERNET + length].chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn what_is_not_ours_has_a_reason() {
    let reason = |bytes: &[u8]| parse(bytes, NONE).err();
    assert_eq!(reason(&with(0, 2)), None);
    assert_eq!(reason(&with(13, 6)), Some(NotOurs::Protocol));
    assert_eq!(reason(&with(ETHERNET + 9, 6)), Some(NotOurs::Protocol));
    assert_eq!(reason(&with(ETHERNET + 6, 0x20)), Some(NotOurs::Fragment));
    assert_eq!(reason(&with(ETHERNET + 7, 1)), Some(NotOurs::Fragment));
    assert_eq!(reason(&with(ETHERNET, 0x65)), Some(NotOurs::Malformed));
    // A header that is shorter than there is one.
    for words in 0..5 {
        assert_eq!(
            reason(&with(ETHERNET, 0x40 | words)),
            Some(NotOurs::Malformed)
        );
    }
    assert_eq!(reason(&with(ETHERNET + 3, 255)), Some(NotOurs::Malformed));
    assert_eq!(reason(&with(ETHERNET + 25, 7)), Some(NotOurs::Malformed));
    assert_eq!(reason(&[0; 13]), Some(NotOurs::Malformed));
}

#[test]
fn what_does_not_fit_is_not_written() {
    let route = |addresses| Route::new([0; 6], [0; 6], &addresses);
    let mixed = Addresses {
        destination: "[fd00::2]:4690".parse().unwrap(),
        ..v4()
    };
    let v6 = Addresses {
        source: "[fd00::1]:5000".parse().unwrap(),
        ..mixed
    };
    let mut frame = vec![0; 80_000];
    let mut emit = |addresses, length, room: usize| {
        route(addresses)?.emit(&mut frame[..room], Ecn::Capable, length, NONE)
    };
    assert_eq!(emit(v4(), 100, 141), None);
    assert_eq!(emit(v4(), 100, 142), Some(142));
    assert_eq!(emit(mixed, 100, 1000), None);
    assert_eq!(emit(mixed.reversed(), 100, 1000), None);
    // The lengths of IP and UDP have 16 bits.
    assert_eq!(emit(v4(), 65_507, 80_000), Some(65_507 + 42));
    assert_eq!(emit(v4(), 65_508, 80_000), None);
    assert_eq!(emit(v6, 65_527, 80_000), Some(65_527 + 62));
    assert_eq!(emit(v6, 65_528, 80_000), None);
}
