use super::*;
use crate::state::observe::Reach;
use crate::state::process_group::ProcessGroup;
use rendezvous::rundir::scratch::{Random, Scratch};
use std::sync::atomic::Ordering;

const SECOND: u64 = 1_000_000_000;

fn capture_all(dir: &Scratch) -> (Capture, Vec<Begun>) {
    let (mut capture, mut how) = (Capture::default(), Vec::new());
    capture.find_programs(
        &Reach::of(dir),
        |_| true,
        |_, _, begun| how.push(begun.clone()),
    );
    (capture, how)
}

fn read(capture: &mut Capture) -> Vec<Copied> {
    let mut all = Vec::new();
    capture.read(|copied, _| all.push(copied));
    all
}

fn put(family: &ProcessGroup, number: u32, time: u64, offset: u64, bytes: &[u8]) {
    let sent = Sent {
        time,
        number,
        record: family.record(number),
        by_link: false,
        read: 5,
    };
    let mut copier = Copier::new(family, sent, offset);
    // SAFETY: the bytes are there.
    unsafe { copier.take(bytes.as_ptr(), bytes.len()) };
}

#[test]
fn it_is_on_for_a_while_only() {
    let switch = Switch::default();
    let now = 1000 * SECOND;
    assert!(!switch.is_on(now) && !switch.is_used());
    let mut lease = switch.begin(now).unwrap();
    assert!(switch.is_on(now) && switch.is_on(now + 2 * SECOND));
    assert!(!switch.is_on(now + 4 * SECOND), "its command was killed");
    assert!(!switch.is_on(now - 600 * SECOND), "the clock was set back");
    assert!(switch.renew(&mut lease, now + 2 * SECOND));
    assert!(switch.is_on(now + 4 * SECOND) && switch.is_used());
    assert!(switch.end(&lease, now) && !switch.is_used());
}

/// Whoever was away too long may find the place taken, and the circle without memory.
#[test]
fn what_has_run_out_is_not_renewed() {
    let (switch, now) = (Switch::default(), 1000 * SECOND);
    let mut first = switch.begin(now).unwrap();
    let late = now + 4 * SECOND;
    assert!(!switch.renew(&mut first, late) && !switch.is_on(late));
    let second = switch.begin(late).unwrap();
    assert_eq!(second.slot, first.slot);
    assert!(!switch.renew(&mut first, late) && !switch.renew(&mut first, now));
    switch.end(&first, late);
    assert!(switch.is_on(late), "it is the second one's");
}

#[test]
fn there_are_so_many_places() {
    let (switch, now) = (Switch::default(), 1000 * SECOND);
    let leases: Vec<_> = (0..SLOTS).map(|_| switch.begin(now).unwrap()).collect();
    assert_eq!(switch.begin(now), None);
    assert!(!switch.end(&leases[0], now), "others still want copies");
    assert_eq!(switch.begin(now).map(|it| it.slot), Some(0));
    assert_eq!(
        switch.begin(now + 4 * SECOND).map(|it| it.slot),
        Some(0),
        "of one that is gone"
    );
}

#[test]
fn copies_say_whose_they_are() {
    for ends in [
        ["10.1.2.3:80", "10.9.9.9:50000"],
        ["[fd00::1]:1", "[::1]:65535"],
    ] {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let number = family.claim().unwrap();
        let [local, peer] = ends.map(|end| end.parse().unwrap());
        family.record(number).set_addresses(local, peer);
        let (mut capture, how) = capture_all(&dir);
        assert_eq!(how, [Begun::Yes]);
        let time = now();
        put(&family, number, time, 99, b"some bytes");
        let expected = Copied {
            time,
            pid: os::pid::get(),
            record: number,
            generation: 1,
            by_link: false,
            local,
            peer,
            offset: 99,
            read: 5,
            bytes: b"some bytes".to_vec(),
        };
        assert_eq!(read(&mut capture), [expected]);
        assert_eq!(read(&mut capture), []);
        let totals = capture.totals();
        assert_eq!(
            (totals.entries, totals.bytes, totals.missed_entries),
            (1, 10, 0)
        );
    }
}

#[test]
fn many_bytes_are_cut_and_come_in_order() {
    let dir = Scratch::new();
    let family = ProcessGroup::create(&dir).unwrap();
    let number = family.claim().unwrap();
    let (mut capture, _) = capture_all(&dir);
    let bytes: Vec<u8> = (0..200_001_u32).map(|n| (n * 7 + n / 256) as u8).collect();
    put(&family, number, now(), 10, &bytes);
    let all = read(&mut capture);
    assert!(all.iter().all(|it| it.bytes.len() <= MOST));
    let mut at = 10;
    for copied in &all {
        assert_eq!(copied.offset, at);
        at += copied.bytes.len() as u64;
    }
    assert_eq!(
        all.iter()
            .flat_map(|it| it.bytes.clone())
            .collect::<Vec<u8>>(),
        bytes
    );
}

/// What is read and what is said to be missed is all.
#[test]
fn what_was_overwritten_is_counted() {
    let dir = Scratch::new();
    let family = ProcessGroup::create(&dir).unwrap();
    let number = family.claim().unwrap();
    let (mut capture, _) = capture_all(&dir);
    let bytes = vec![7; 3 << 20];
    for n in 0..4 {
        put(&family, number, now(), n * bytes.len() as u64, &bytes);
    }
    let got: usize = read(&mut capture).iter().map(|it| it.bytes.len()).sum();
    let totals = capture.totals();
    assert!(totals.missed_bytes > 0 && got > 1 << 20, "{got} {totals:?}");
    assert_eq!(totals.bytes, got as u64);
    assert_eq!(totals.bytes + totals.missed_bytes, 12 << 20);
}

/// Pages that have memory, of the whole file.
fn memory(family: &ProcessGroup) -> u64 {
    let stat = rustix::fs::fstat(family.file()).unwrap();
    stat.st_blocks as u64 * 512
}

#[test]
fn afterwards_it_has_no_memory() {
    let dir = Scratch::new();
    let family = ProcessGroup::create(&dir).unwrap();
    let number = family.claim().unwrap();
    assert!(memory(&family) < 1 << 20);
    let (mut capture, _) = capture_all(&dir);
    assert!(memory(&family) > BYTES as u64);
    capture.switch_off();
    put(&family, number, now(), 0, b"too late");
    assert_eq!(read(&mut capture), []);
    capture.give_back();
    assert!(memory(&family) < 1 << 20);
    assert!(!family.header().capture.is_used());
}

/// Somebody was killed, or is stopped, while writing there.
#[test]
fn memory_that_may_be_written_stays() {
    let dir = Scratch::new();
    let family = ProcessGroup::create(&dir).unwrap();
    let (mut capture, _) = capture_all(&dir);
    let counters = &family.header().capture.counters;
    counters.reserved.fetch_add(64, Ordering::Relaxed);
    capture.switch_off();
    capture.give_back();
    assert!(memory(&family) > BYTES as u64);
}

#[test]
fn several_captures_get_the_same() {
    let dir = Scratch::new();
    let family = ProcessGroup::create(&dir).unwrap();
    let number = family.claim().unwrap();
    let (mut first, _) = capture_all(&dir);
    let (mut second, how) = capture_all(&dir);
    assert_eq!(how, [Begun::Yes]);
    put(&family, number, now(), 0, b"for both");
    assert_eq!(read(&mut first), read(&mut second));
    first.switch_off();
    first.give_back();
    assert!(memory(&family) > BYTES as u64, "the other one goes on");
    put(&family, number, now(), 8, b"for one");
    assert_eq!(read(&mut second).len(), 1);
}

#[test]
fn any_content_is_survived() {
    let dir = Scratch::new();
    let family = ProcessGroup::create(&dir).unwrap();
    family.claim().unwrap();
    let (mut capture, _) = capture_all(&dir);
    let circle = family.circle();
    let mut random = Random(3);
    for round in 0..20 {
        for word in circle.words.iter().step_by(8) {
            word.store(random.number() % 5000, Ordering::Relaxed);
        }
        let reserved = [random.number(), random.number() % (4 << 20), u64::MAX][round % 3];
        circle.counters.reserved.store(reserved, Ordering::Relaxed);
        circle
            .counters
            .entries
            .store(random.number(), Ordering::Relaxed);
        read(&mut capture);
        capture.totals();
    }
    put(&family, 0, now(), u64::MAX - 3, b"offsets that overflow");
}
