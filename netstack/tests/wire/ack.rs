//! The acknowledgement block at its limits.

use std::ops::RangeInclusive;

use netstack::wire::ack::{self, Marks, Report};
use netstack::wire::{HEADER, Header, Kind, Packet};
use proptest::prelude::*;

use super::draft::{ranges, reports};

const REPORT: Report = Report {
    path: 0,
    delay_nanos: 0,
    marks: None,
};

/// What the peer reads of these ranges in a block of at most so many bytes.
fn through(
    report: &Report,
    ranges: &[RangeInclusive<u64>],
    room: usize,
) -> Option<Vec<RangeInclusive<u64>>> {
    let mut out = vec![0xaa; HEADER + room];
    let written = ack::emit(&mut out[HEADER..], report, ranges.iter().cloned())?;
    assert!(written.length <= room);
    assert!(
        out[HEADER + written.length..]
            .iter()
            .all(|&byte| byte == 0xaa)
    );
    out.truncate(HEADER + written.length);
    Header::of(Kind::Ack).emit(out.first_chunk_mut()?, Some(written), 0);
    let packet = Packet::parse(&out).expect("well-formed");
    let ack = packet.ack.expect("a block");
    assert_eq!(ack.marks(), report.marks);
    ack.ranges(*ranges[0].end()).collect()
}

proptest! {
    // [P3] As many as there is room for, from the largest down.
    #[test]
    fn a_short_block_has_the_newest(report in reports(), ranges in ranges(40), room in 0usize..200) {
        let fixed = if report.marks.is_some() { 16 } else { 8 };
        let most = (room.saturating_sub(fixed) / 4).min(ack::RANGES);
        let kept = &ranges[..most.min(ranges.len())];
        let read = through(&report, &ranges, room);
        prop_assert_eq!(read.as_deref(), (most > 0).then_some(kept));
    }

    #[test]
    fn the_delay_is_told_as_far_as_the_field_goes(nanos: u64) {
        let report = Report { delay_nanos: nanos, ..REPORT };
        let mut out = [0; HEADER + ack::LONGEST];
        let written = ack::emit(&mut out[HEADER..], &report, std::iter::once(7..=7)).unwrap();
        Header::of(Kind::Ack).emit(out.first_chunk_mut().unwrap(), Some(written), 0);
        let packet = Packet::parse(&out[..HEADER + written.length]).unwrap();
        let told = packet.ack.unwrap().delay_nanos();
        prop_assert_eq!(told, nanos.min(65_535 * 250) / 250 * 250);
    }

    // [P3] The short way writes what the long one writes, or nothing.
    #[test]
    fn one_range_is_written_alike(report in reports(), low in any::<u32>(), length in prop_oneof![1u64..100, 1u64..100_000], room in 0usize..40) {
        let low = u64::from(low);
        let (mut one, mut any) = ([0xaa; 40], [0xaa; 40]);
        let short = ack::emit_one(&mut one[..room], &report, low..low + length);
        let long = ack::emit(&mut any[..room], &report, std::iter::once(low..=low + length - 1));
        let fits = length <= 1 << 16;
        prop_assert_eq!(short.map(|w| w.length), long.filter(|_| fits).map(|w| w.length));
        if short.is_some() {
            prop_assert_eq!(one, any);
        }
    }

    // [P6] [W7] Ranges that reach below zero are none; those before them are right.
    #[test]
    fn nothing_lies_below_zero(ranges in ranges(ack::RANGES), largest in 0u64..20_000) {
        let mut out = [0; HEADER + ack::LONGEST];
        let written = ack::emit(&mut out[HEADER..], &REPORT, ranges.iter().cloned()).unwrap();
        Header::of(Kind::Ack).emit(out.first_chunk_mut().unwrap(), Some(written), 0);
        let packet = Packet::parse(&out[..HEADER + written.length]).unwrap();
        let moved = ranges[0].end() - largest;
        let expected = ranges.iter().map(|range| {
            let low = range.start().checked_sub(moved)?;
            Some(low..=range.end() - moved)
        });
        let read = packet.ack.unwrap().ranges(largest);
        prop_assert!(read.eq(expected));
    }
}

// [P3]
#[test]
fn of_a_long_range_the_newest_are_told() {
    let read = |ranges: &[RangeInclusive<u64>]| through(&REPORT, ranges, ack::LONGEST);
    assert_eq!(read(&[0..=65_535]), Some(vec![0..=65_535]));
    assert_eq!(read(&[0..=65_536]), Some(vec![1..=65_536]));
    // What is older does not fit behind a range that was cut.
    assert_eq!(read(&[10..=70_000, 1..=3]), Some(vec![4465..=70_000]));
    assert_eq!(
        read(&[1 << 40..=1 << 41]),
        Some(vec![(1 << 41) - 65_535..=1 << 41])
    );
}

#[test]
fn a_gap_too_long_for_the_field_ends_the_block() {
    let read = |ranges: &[RangeInclusive<u64>]| through(&REPORT, ranges, ack::LONGEST);
    let longest = [100_000..=100_001, 34_463..=34_463, 1..=1];
    assert_eq!(read(&longest), Some(longest.to_vec()));
    let longer = [100_000..=100_001, 34_462..=34_462, 1..=1];
    assert_eq!(read(&longer), Some(vec![100_000..=100_001]));
}

// [P3]
#[test]
fn the_longest_block() {
    let ranges: Vec<_> = (0..40).rev().map(|n| 10 * n + 100..=10 * n + 103).collect();
    let marks = Some(Marks {
        capable: 1,
        congested: 2,
    });
    let report = Report { marks, ..REPORT };
    let read = through(&report, &ranges, ack::LONGEST);
    assert_eq!(read.as_deref(), Some(&ranges[..32]));
    assert_eq!(ack::LONGEST, 8 + 32 * 4 + 8);
}

#[test]
fn nothing_received_is_no_block() {
    let mut out = [0; 100];
    assert!(ack::emit(&mut out, &REPORT, std::iter::empty()).is_none());
}
