use crate::state::capture::{Capture, Copied};
use crate::state::record::{Record, flag};
use crate::testing::World;

fn capture(world: &World) -> Capture {
    let mut capture = Capture::default();
    capture.find_programs(
        &crate::state::observe::Reach::of(&world.run_dir()),
        |_| true,
        |_, _, _| {},
    );
    assert_eq!(capture.programs(), 2);
    capture
}

fn read(capture: &mut Capture) -> Vec<Copied> {
    let mut all = Vec::new();
    capture.read(|copied, _| all.push(copied));
    all.sort_by_key(|copied| copied.time);
    all
}

fn is_marked(record: &Record) -> bool {
    record.has(flag::COPIED)
}

#[test]
fn both_directions_of_a_connection() {
    let world = World::promoted();
    let mut capture = capture(&world);
    assert_eq!(world.client.send(world.near, b"question"), Ok(8));
    assert_eq!(
        world.server.receive(world.far, 99),
        Ok(b"question".to_vec())
    );
    assert_eq!(world.server.send(world.far, b"answer"), Ok(6));
    assert_eq!(world.client.receive(world.near, 99), Ok(b"answer".to_vec()));
    assert_eq!(world.client.send(world.near, b"more"), Ok(4));
    let all = read(&mut capture);
    let bytes: Vec<&[u8]> = all.iter().map(|it| &it.bytes[..]).collect();
    assert_eq!(bytes, [&b"question"[..], b"answer", b"more"]);
    let [question, answer, more] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!((question.local, question.peer), (answer.peer, answer.local));
    assert_eq!(answer.read, question.offset + 8);
    assert_eq!(
        (more.offset, more.read),
        (question.offset + 8, answer.offset + 6)
    );
    assert!(question.time < answer.time);
}

#[test]
fn off_is_off() {
    let world = World::promoted();
    let mut capture = capture(&world);
    assert!(world.client.record(world.near, is_marked));
    world.round_trip();
    assert_eq!(read(&mut capture).len(), 2);
    capture.switch_off();
    world.round_trip();
    assert_eq!(read(&mut capture), []);
    assert!(!world.client.record(world.near, is_marked));
    assert_eq!(capture.totals().entries, 2);
}

/// Of a connection that gets its ring while a capture is on.
#[test]
fn from_the_first_byte_in_a_ring_on() {
    let mut world = World::plain();
    world.round_trip();
    let mut capture = capture(&world);
    world.promote();
    let ring_bytes = |record: &Record| {
        let [sent, ..] = record.carried();
        sent.load(std::sync::atomic::Ordering::Relaxed)
    };
    let sent =
        world.client.record(world.near, ring_bytes) + world.server.record(world.far, ring_bytes);
    assert!(sent > 0);
    assert_eq!(read(&mut capture).len() as u64, sent, "one byte each");
}

/// Over the edge of rings of all sizes.
#[test]
fn large_sends() {
    let world = World::promoted();
    let mut capture = capture(&world);
    let (mut sent, mut got, mut copies) = (Vec::new(), Vec::new(), Vec::<Copied>::new());
    for round in 0..60_usize {
        let bytes: Vec<u8> = (0..30_011 * (round % 7 + 1))
            .map(|n| (n * 31 + round) as u8)
            .collect();
        let mut left = &bytes[..];
        while !left.is_empty() {
            let n = world.client.send(world.near, left).unwrap_or(0);
            sent.extend_from_slice(&left[..n]);
            left = &left[n..];
            got.extend(world.server.receive(world.far, 1 << 20).unwrap_or_default());
            copies.extend(read(&mut capture));
        }
    }
    let mut at = copies[0].offset;
    for copied in &copies {
        assert_eq!(copied.offset, at);
        at += copied.bytes.len() as u64;
    }
    let copied: Vec<u8> = copies.into_iter().flat_map(|it| it.bytes).collect();
    assert!(copied == sent);
    assert!(got.len() > 1 << 20);
}
