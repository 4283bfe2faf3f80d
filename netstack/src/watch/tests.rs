//! Wires by themselves, and against a plain list of ranges.

extern crate std;

use std::collections::BTreeSet;
use std::vec::Vec;

use core::ops::Range;

use super::{Armed, BLOCKS, Blocks, GROUPS, Mail, PER_GROUP, Sleep, WIRES, bits};

fn touched(armed: &Armed, blocks: Blocks, written: Range<u64>) -> Vec<usize> {
    let mut all = Vec::new();
    armed.look(blocks, written, |group, wires| {
        all.extend(bits(wires.into()).map(|wire| group * PER_GROUP + wire));
    });
    all
}

#[test]
fn a_write_touches_what_watches_some_of_it() {
    let (armed, blocks) = (Armed::new(), Blocks::new(1 << 20));
    armed.arm(blocks, 5, 100..200);
    armed.arm(blocks, 6, 150..151);
    armed.arm(blocks, 900, 199..5000);
    for (written, wires) in [
        (0..100, &[][..]),
        (0..101, &[5]),
        (150..160, &[5, 6]),
        (151..199, &[5]),
        (0..1 << 20, &[5, 6, 900]),
        (4999..5000, &[900]),
        (5000..5001, &[]),
        (150..150, &[]),
    ] {
        assert_eq!(
            touched(&armed, blocks, written.clone()),
            wires,
            "{written:?}"
        );
    }
    armed.disarm(blocks, 5);
    assert_eq!(touched(&armed, blocks, 0..160), [6]);
    armed.disarm(blocks, 6);
    armed.disarm(blocks, 900);
    assert_eq!(touched(&armed, blocks, 0..1 << 20), []);
}

/// Any wires and writes, in regions of any size.
#[test]
fn finds_what_a_plain_search_finds() {
    let mut state = 7_u64;
    let mut below = |limit: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % limit
    };
    for size in [1, 64, 65, 4096, 65_537, 1 << 20, (1 << 30) + 5] {
        let (armed, blocks) = (Armed::new(), Blocks::new(size));
        let mut plain: Vec<Option<Range<u64>>> = std::vec![None; WIRES];
        for _ in 0..2000 {
            let wire = below(WIRES as u64) as usize;
            let start = below(size);
            let range = start..start + 1 + below(size - start).min(1 + below(500));
            match plain[wire].take() {
                Some(_) => armed.disarm(blocks, wire),
                None => {
                    armed.arm(blocks, wire, range.clone());
                    plain[wire] = Some(range);
                }
            }
            let start = below(size);
            let written = start..start + 1 + below(size - start);
            let overlaps =
                |range: &Range<u64>| range.start < written.end && written.start < range.end;
            let expected: Vec<usize> = (0..WIRES)
                .filter(|wire| plain[*wire].as_ref().is_some_and(overlaps))
                .collect();
            assert_eq!(touched(&armed, blocks, written.clone()), expected);
        }
    }
}

#[test]
fn blocks_cover_the_region() {
    for size in [1, 63, 64, 65, 65_536, 65_537, 1 << 40, u64::MAX] {
        let blocks = Blocks::new(size);
        let last = blocks.of(&(size - 1..size));
        assert!(last.len() == 1 && last.end <= BLOCKS, "{size}: {last:?}");
    }
}

#[test]
fn a_mail_tells_each_wire_once() {
    let mail = Mail::new();
    assert!(mail.note(3, 0b101));
    assert!(!mail.note(3, 0b001));
    assert!(!mail.note(GROUPS - 1, 1 << (PER_GROUP - 1)));
    let mut told = BTreeSet::new();
    mail.take(|wire| assert!(told.insert(wire)));
    let all = [3 * PER_GROUP, 3 * PER_GROUP + 2, WIRES - 1];
    assert_eq!(told, BTreeSet::from(all));
    mail.take(|wire| panic!("{wire} again"));
    assert!(mail.note(0, 1), "empty again");
}

#[test]
fn a_mail_forgets_one_wire() {
    let mail = Mail::new();
    mail.note(3, 0b111);
    mail.forget(3 * PER_GROUP + 1);
    mail.forget(WIRES - 1);
    let mut told = BTreeSet::new();
    mail.take(|wire| assert!(told.insert(wire)));
    assert_eq!(told, BTreeSet::from([3 * PER_GROUP, 3 * PER_GROUP + 2]));
}

/// Whatever its writer puts there.
#[test]
fn a_mail_tells_only_wires_that_can_be() {
    let mail = Mail::new();
    for group in 0..GROUPS {
        mail.note(group, u32::MAX);
    }
    let mut count = 0;
    mail.take_all(|wire| {
        assert!(wire < WIRES);
        count += 1;
    });
    assert_eq!(count, WIRES);
}

#[test]
fn a_bell_is_wanted_by_sleepers() {
    let sleep = Sleep::new();
    assert!(!sleep.wants_bell());
    sleep.begin();
    assert!(sleep.wants_bell());
    sleep.end();
    assert!(!sleep.wants_bell());
}
