//! Packets come out as they went in, and nothing else is one.

use netstack::wire::ack::Report;
use netstack::wire::body::{Hello, Open, Welcome};
use netstack::wire::{Bare, HEADER, Kind, Malformed, Packet, VERSION};
use proptest::prelude::*;

use super::draft::{Draft, drafts, some_seal};

const ACK: u8 = 0x80;
const ASK: u8 = 0x40;
const MARKS: u8 = 0x20;

fn malformed(bytes: &[u8]) -> Option<Malformed> {
    Packet::parse(bytes).err()
}

/// Whether a byte of the header belongs to a field that the kind does not have.
fn is_stray(draft: &Draft, at: usize) -> bool {
    let kind = draft.header.kind;
    match at {
        4..8 => kind == Kind::Hello,
        8..12 => !kind.is_asking(),
        16..24 => !kind.has_token(),
        24..32 => !kind.has_token() || kind == Kind::Accept,
        _ => false,
    }
}

proptest! {
    // [W1] [W5]
    #[test]
    fn come_out_as_they_went_in(draft in drafts()) {
        let bytes = draft.bytes(some_seal());
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(packet.header, draft.header);
        prop_assert_eq!(packet.body, &draft.body[..]);
        prop_assert_eq!(packet.head().len() + packet.body.len(), bytes.len());
        prop_assert_eq!(packet.ack.is_some(), draft.ack.is_some());
        if let (Some(ack), Some(sent)) = (packet.ack, &draft.ack) {
            let Report { path, delay_nanos, .. } = sent.report;
            prop_assert_eq!((ack.path(), ack.delay_nanos()), (path, delay_nanos));
            prop_assert_eq!(ack.marks(), sent.report.marks);
            let largest = *sent.ranges[0].end();
            prop_assert_eq!(ack.largest(), largest as u32);
            let ranges: Option<Vec<_>> = ack.ranges(largest).collect();
            prop_assert_eq!(ranges.as_ref(), Some(&sent.ranges));
        } else {
            prop_assert_eq!(bytes.len(), HEADER + draft.body.len());
        }
        let bare = Bare::parse(&bytes).map(|bare| (bare.path, bare.tag, bare.crc, bare.ack.largest()));
        let is_ack = packet.header.kind == Kind::Ack;
        let whole = packet.ack.filter(|_| is_ack).map(|ack| {
            (packet.header.path, packet.header.tag, packet.crc, ack.largest())
        });
        prop_assert_eq!(bare, whole);
        let crc = some_seal().head(packet.head()).over(packet.body);
        prop_assert_eq!(packet.crc, crc.value());
    }

    // [W1]
    #[test]
    fn no_other_version(draft in drafts(), version in 0u8..16) {
        prop_assume!(version != VERSION);
        let mut bytes = draft.bytes(some_seal());
        bytes[0] = bytes[0] & 15 | version << 4;
        prop_assert_eq!(malformed(&bytes), Some(Malformed::Version));
    }

    // [W1]
    #[test]
    fn no_other_kind(draft in drafts(), kind in 12u8..16) {
        let mut bytes = draft.bytes(some_seal());
        bytes[0] = bytes[0] & 0xf0 | kind;
        prop_assert_eq!(malformed(&bytes), Some(Malformed::Kind));
    }

    // [W1]
    #[test]
    fn no_other_flags(draft in drafts(), flags in 1u8..4) {
        let mut bytes = draft.bytes(some_seal());
        bytes[1] |= flags << 3;
        prop_assert_eq!(malformed(&bytes), Some(Malformed::Flags));
        // Counts are part of an acknowledgement.
        bytes[1] = bytes[1] & ASK | MARKS;
        prop_assert_eq!(malformed(&bytes), Some(Malformed::Flags));
    }

    // [W1]
    #[test]
    fn lengths_add_up_exactly(draft in drafts(), cut in 1usize..2000, more in 1usize..100, length: u16) {
        let whole = draft.bytes(some_seal());
        let shorter = &whole[..whole.len().saturating_sub(cut)];
        prop_assert_eq!(malformed(shorter), Some(Malformed::Length));
        let mut longer = whole.clone();
        longer.resize(whole.len() + more, 0);
        prop_assert_eq!(malformed(&longer), Some(Malformed::Length));
        let mut other = whole.clone();
        other[2..4].copy_from_slice(&length.to_be_bytes());
        let fits = usize::from(length) == draft.body.len();
        prop_assert_eq!(malformed(&other), (!fits).then_some(Malformed::Length));
    }

    // [W1] The length that every kind but DATA and PING has.
    #[test]
    fn each_kind_has_its_length(draft in drafts(), length in 0usize..100) {
        let kind = draft.header.kind;
        let fits = match kind {
            Kind::Data => length > 0,
            Kind::Ping => true,
            _ => length == draft.body.len(),
        };
        let bytes = Draft { body: vec![0; length], ..draft }.bytes(some_seal());
        prop_assert_eq!(malformed(&bytes), (!fits).then_some(Malformed::Length));
    }

    // [W1]
    #[test]
    fn fields_that_a_kind_does_not_have_are_zero(draft in drafts(), at in 4usize..HEADER, value in 1u8..) {
        prop_assume!(is_stray(&draft, at));
        let mut bytes = draft.bytes(some_seal());
        bytes[at] = value;
        prop_assert_eq!(malformed(&bytes), Some(Malformed::Field));
    }

    // [W1] Only asking packets ask.
    #[test]
    fn only_asking_packets_ask(draft in drafts()) {
        let mut bytes = draft.bytes(some_seal());
        bytes[1] |= ASK;
        let asking = draft.header.kind.is_asking();
        prop_assert_eq!(malformed(&bytes), (!asking).then_some(Malformed::Field));
    }

    // [W1] An ACK acknowledges something, and nothing is acknowledged before a link is up.
    #[test]
    fn acknowledgements_fit_their_kind(draft in drafts(), from in drafts()) {
        let has_ack = from.ack.is_some();
        let kind = draft.header.kind;
        let fits = match kind {
            Kind::Hello | Kind::Welcome | Kind::Confirm => !has_ack,
            Kind::Ack => has_ack,
            _ => true,
        };
        let bytes = Draft { ack: from.ack, ..draft }.bytes(some_seal());
        prop_assert_eq!(bytes[1] & ACK != 0, has_ack);
        prop_assert_eq!(malformed(&bytes), (!fits).then_some(Malformed::Field));
    }

    // [W1] A block that is cut, names no path that there can be, or has no range or too many.
    #[test]
    fn a_block_is_whole(draft in drafts(), path in 8u8.., count: u8) {
        prop_assume!(draft.ack.is_some());
        let whole = draft.bytes(some_seal());
        let with = |at: usize, value: u8| {
            let mut bytes = whole.clone();
            bytes[at] = value;
            malformed(&bytes)
        };
        prop_assert_eq!(with(HEADER, path), Some(Malformed::Field));
        if !(1..=32).contains(&count) {
            prop_assert_eq!(with(HEADER + 1, count), Some(Malformed::Length));
        } else if count != whole[HEADER + 1] {
            prop_assert!(with(HEADER + 1, count).is_some());
        }
        for length in HEADER..whole.len() - draft.body.len() {
            prop_assert_eq!(malformed(&whole[..length]), Some(Malformed::Length));
        }
        // Nothing follows the last range.
        let last = HEADER + 8 + 4 * usize::from(whole[HEADER + 1]) - 1;
        prop_assert_eq!(with(last, 1), Some(Malformed::Field));
    }

    // [W7] And what is a packet is written in one way only.
    #[test]
    fn any_bytes_can_be_read(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..12) {
        if let Some(first) = bytes.first_mut() {
            *first = VERSION << 4 | kind;
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert_eq!(packet.head().len() + packet.body.len(), bytes.len());
            if let Some(ack) = packet.ack {
                prop_assert!((1..=32).contains(&ack.ranges(0).count()));
            }
        }
    }

    #[test]
    fn bodies_come_out_as_they_went_in(numbers: [u64; 5], tag: u32, cut in 1usize..12) {
        let [a, b, c, d, e] = numbers;
        let hello = Hello { incarnation: a, tag };
        prop_assert_eq!(Hello::parse(&hello.emit()), Some(hello));
        prop_assert_eq!(Hello::parse(&hello.emit()[..12 - cut]), None);
        let welcome = Welcome { me: hello, you: b, challenge: c };
        prop_assert_eq!(Welcome::parse(&welcome.emit()), Some(welcome));
        prop_assert_eq!(Welcome::parse(&welcome.emit()[..28 - cut]), None);
        let open = Open { name: a, token: b, send_from: c, receive_from: d, credit: e };
        prop_assert_eq!(Open::parse(&open.emit()), Some(open));
        prop_assert_eq!(Open::parse(&open.emit()[..40 - cut]), None);
    }
}
