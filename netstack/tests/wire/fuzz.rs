//! Any bytes at all, and packets and frames with any changes; those of `__fuzz__` first. For hours, guided by
//! coverage: `tests/fuzz 3600`.

use std::time::Duration;

use netstack::wire::frame::{self, Offload};
use netstack::wire::{Bare, HEADER, Kind, Packet, body};

/// What a run of the tests spends on each, unless told otherwise.
const TIME: Duration = Duration::from_secs(1);

/// One of these, with bytes changed as the input says: which, where and how.
fn changed(whole: &[(String, Vec<u8>)], input: &[u8]) -> Vec<u8> {
    let Some((&which, changes)) = input.split_first() else {
        return Vec::new();
    };
    let mut bytes = whole[usize::from(which) % whole.len()].1.clone();
    let (changes, rest) = changes.as_chunks::<3>();
    for [high, low, value] in changes {
        let at = usize::from(u16::from_be_bytes([*high, *low])) % bytes.len();
        bytes[at] = *value;
    }
    // Two bytes are left over: another length.
    if let [high, low] = *rest {
        bytes.resize(
            usize::from(u16::from_be_bytes([high, low]) % 2000).max(1),
            0,
        );
    }
    bytes
}

#[test]
fn packets() {
    let whole = super::layout::packets();
    let target = bolero::check!().with_test_time(TIME);
    target.for_each(|bytes: &[u8]| {
        read_packet(bytes);
        read_packet(&changed(&whole, bytes));
        read_packet(&changed(&whole, &bytes[..bytes.len().min(7)]));
    });
}

#[test]
fn frames() {
    let whole = super::layout::frames();
    let target = bolero::check!().with_test_time(TIME);
    target.for_each(|bytes: &[u8]| {
        read_frame(bytes);
        read_frame(&changed(&whole, bytes));
        read_frame(&changed(&whole, &bytes[..bytes.len().min(7)]));
    });
}

/// [W7] And whatever is a packet is written in one way only.
fn read_packet(bytes: &[u8]) {
    let parsed = Packet::parse(bytes);
    let is_ack = parsed.is_ok_and(|packet| packet.header.kind == Kind::Ack);
    assert_eq!(Bare::parse(bytes).is_some(), is_ack);
    let Ok(packet) = parsed else {
        return;
    };
    assert_eq!([packet.head(), packet.body].concat(), bytes);
    for full in [0, u64::from(u32::MAX), u64::MAX] {
        let ranges = packet.ack.iter().flat_map(|ack| ack.ranges(full));
        let ranges: Option<Vec<_>> = ranges.collect();
        let falls = |pair: &[std::ops::RangeInclusive<u64>]| pair[1].end() < pair[0].start();
        assert!(ranges.is_none_or(|ranges| ranges.windows(2).all(falls)));
    }
    let mut fixed = [0; HEADER];
    packet.header.emit(&mut fixed, None, packet.body.len());
    // Flags of the acknowledgement and the CRC are not the header's own.
    fixed[1] |= bytes[1] & 0xa0;
    fixed[12..16].copy_from_slice(&packet.crc.to_be_bytes());
    assert_eq!(fixed, bytes[..HEADER]);
    let _ = body::Hello::parse(packet.body);
    let _ = body::Welcome::parse(packet.body);
    let _ = body::Open::parse(packet.body);
}

/// [W7] A datagram lies within its frame.
fn read_frame(bytes: &[u8]) {
    for udp_received in [false, true] {
        let offload = Offload {
            udp_received,
            ..Offload::default()
        };
        if let Ok(datagram) = frame::parse(bytes, offload) {
            let overhead = frame::overhead(&datagram.addresses);
            assert!(datagram.payload.len() + overhead <= bytes.len());
        }
    }
    for size in [0, 1, 7, 100, usize::MAX] {
        cut(&mut bytes.to_vec(), size);
    }
}

/// [W7] What a frame of several is cut into lies within it, is a datagram each, and has all of its payload.
fn cut(bytes: &mut [u8], size: usize) {
    let Some(mut segments) = frame::Segments::of(bytes, size) else {
        return;
    };
    let whole = bytes.to_vec();
    let overhead = frame::Outline::of(&whole).expect("a datagram").overhead();
    let (longest, mut end) = (segments.longest(), overhead);
    while let Some(place) = segments.cut(bytes) {
        let piece = &bytes[place.clone()];
        assert!(piece.len() > overhead && piece.len() <= longest);
        assert_eq!(place.start + overhead, end);
        assert_eq!(piece[overhead..], whole[end..place.end]);
        let outline = frame::Outline::of(piece).expect("a datagram");
        assert!(outline.is_open(piece));
        end = place.end;
    }
    assert_eq!(end, whole.len());
}
