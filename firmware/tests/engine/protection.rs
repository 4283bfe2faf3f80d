//! What a broken or hostile program, a dead one, and a stranger can do: harm themselves.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use firmware::{End, EndpointId, Refused, Segment};
use netstack::phy::{Conditions, Port};
use netstack::ring::sync::Ordering;
use netstack::ring::tail;
use netstack::wire::Addresses;
use netstack::wire::frame::{Ecn, Offload, Route};

use crate::program::{Program, Shm};
use crate::world::{FROM_A, FROM_B, World};

const LONG: Duration = Duration::from_secs(2);
const BYTES: u64 = 200_000;

fn world() -> World {
    let conditions = Conditions {
        latency: Duration::from_micros(5),
        rate: Some(10_000_000_000),
        ..Conditions::default()
    };
    World::new(&conditions, 5)
}

fn of_a(world: &mut World, endpoint: EndpointId) -> &mut Program {
    world.a.programs.get_mut(&endpoint).expect("known")
}

/// Two connections from A to B that carry bytes both ways; runs until both have carried some.
fn busy_world() -> (World, [(EndpointId, EndpointId); 2]) {
    let mut world = world();
    let ends = [world.connect(1, 0), world.connect(2, 0)];
    for (a, b) in ends {
        of_a(&mut world, a).write_to = Some(FROM_A + BYTES);
        let program = world.b.programs.get_mut(&b).expect("known");
        program.write_to = Some(FROM_B + BYTES);
    }
    let (_, b) = ends[0];
    world.run_until(LONG, |world| world.b.programs[&b].read() > FROM_A + 20_000);
    (world, ends)
}

/// The second connection gets through as if nothing had happened.
fn other_gets_through(world: &mut World, (a, b): (EndpointId, EndpointId)) {
    world.run_until(LONG, |world| {
        let ends = [(&world.a, a), (&world.b, b)];
        ends.iter()
            .all(|(host, name)| host.gone.contains(&(*name, End::Closed)))
    });
    assert!(world.a.programs[&a].is_done() && world.b.programs[&b].is_done());
}

fn end_of(world: &World, a: EndpointId) -> Option<End> {
    let gone = world.a.gone.iter().find(|(name, _)| *name == a);
    gone.map(|(_, how)| *how)
}

/// One way to write nonsense into a segment.
type Scribble = fn(&Shm, u64);

fn write_tail(segment: &Shm, tail: u64) {
    let shared = segment.sending().shared;
    shared.producer.tail.store(tail, Ordering::SeqCst);
}

fn write_head(segment: &Shm, head: u64) {
    let shared = segment.receiving().shared;
    shared.consumer.head.store(head, Ordering::SeqCst);
}

#[test]
fn nonsense_ends_the_one_that_wrote_it() {
    let scribbles: [Scribble; 6] = [
        // More than the ring holds; less than there was; what no offset can be.
        |segment, word| write_tail(segment, word + (1 << 20)),
        |segment, _| write_tail(segment, 1),
        |segment, _| write_tail(segment, u64::MAX),
        // Bytes that have not come yet; bytes that are read no more.
        |segment, word| write_head(segment, word + (1 << 20)),
        |segment, _| write_head(segment, 1),
        |segment, _| write_head(segment, u64::MAX),
    ];
    for scribble in scribbles {
        let (mut world, [first, second]) = busy_world();
        let program = of_a(&mut world, first.0);
        let written = program.written();
        scribble(&program.segment, written);
        // It is not run any more.
        program.is_awake = false;
        let removed = world.a.programs.remove(&first.0);
        world.a.engine.notice(first.0);
        world.a.prod();
        other_gets_through(&mut world, second);
        assert_eq!(end_of(&world, first.0), Some(End::Hostile));
        assert_eq!(world.a.engine.counters().hostile, 1);
        drop(removed);
    }
}

/// [C7] A stream that has ended cannot grow, nor go on.
#[test]
fn no_byte_after_the_end() {
    let (mut world, [first, second]) = busy_world();
    let program = of_a(&mut world, first.0);
    let segment = program.segment.clone();
    let producer = &segment.sending().shared.producer;
    producer.closed.store(1, Ordering::SeqCst);
    world.a.programs.remove(&first.0);
    world.a.engine.notice(first.0);
    let now = world.now;
    world.a.run(now);
    producer.closed.store(0, Ordering::SeqCst);
    world.a.engine.notice(first.0);
    world.a.prod();
    other_gets_through(&mut world, second);
    assert_eq!(end_of(&world, first.0), Some(End::Hostile));
}

/// [F5] [C5] A program takes its ring away: nothing is placed there any more, and the peer hears of it.
#[test]
fn a_frozen_ring_stays_as_it_is() {
    let (mut world, [first, second]) = busy_world();
    let segment = of_a(&mut world, first.0).segment.clone();
    world.a.programs.remove(&first.0);
    let frozen = tail::freeze(&segment.receiving().shared.producer.tail);
    other_gets_through(&mut world, second);
    assert_eq!(end_of(&world, first.0), Some(End::Frozen));
    let is_reset =
        |(name, how): &(EndpointId, End)| *name == first.1 && matches!(how, End::Reset { .. });
    assert!(world.b.gone.iter().any(is_reset));
    assert_eq!(
        tail::freeze(&segment.receiving().shared.producer.tail),
        frozen
    );
}

/// [F26] A program dies: what it had written arrives, and the end of it.
#[test]
fn the_bytes_of_a_dead_program_arrive() {
    let mut world = world();
    let (a, b) = world.connect(1, 1);
    let program = of_a(&mut world, a);
    program.write_to = Some(FROM_A + (1 << 30));
    world.run_until(LONG, |world| world.b.programs[&b].read() > FROM_A + 100_000);
    let program = world.a.programs.remove(&a).expect("known");
    let now = world.now;
    world.a.engine.orphan(now, a);
    world.a.prod();
    let written = program.written();
    world.run_until(LONG, |world| world.b.programs[&b].ended);
    assert_eq!(world.b.programs[&b].read(), written);
}

/// [F8] A library that has given up before its engine says so.
#[test]
fn who_has_given_up_is_not_opened() {
    let mut world = world();
    let segment = Shm::new(0, FROM_A, FROM_B);
    tail::freeze(&segment.receiving().shared.producer.tail);
    let (now, peer) = (world.now, world.a.peer());
    let refused = world.a.engine.open(now, peer, 1, segment);
    assert!(matches!(refused, Err(Refused::GivenUp(_))));
    let link = world.a.engine.link(peer).expect("a peer");
    assert_eq!(link.connections(), 0);
}

/// A segment is taken only where a segment can be.
#[test]
fn a_segment_that_is_none_is_refused() {
    let mut world = world();
    let segment = Shm::new(0, FROM_A, FROM_B);
    segment
        .receiving()
        .shared
        .consumer
        .head
        .store(5, Ordering::SeqCst);
    let (now, peer) = (world.now, world.a.peer());
    let refused = world.a.engine.open(now, peer, 1, segment);
    assert!(matches!(refused, Err(Refused::Cursors(_))));
}

/// A frame from an unknown host.
fn stranger() -> Vec<u8> {
    let at = |address| SocketAddr::new(Ipv4Addr::from(address).into(), 4690);
    let addresses = Addresses {
        source: at([10, 9, 9, 9]),
        destination: at([10, 0, 0, 1]),
    };
    let route = Route::new([2; 6], [4; 6], &addresses).expect("one family");
    let mut frame = vec![0; route.overhead() + 64];
    let length = route.emit(&mut frame, Ecn::NotCapable, 64, Offload::default());
    assert_eq!(length, Some(frame.len()));
    frame
}

/// Frames that are not for us are counted by kind, and change nothing.
#[test]
fn strangers_are_counted() {
    let (mut world, [first, second]) = busy_world();
    for bytes in [stranger(), vec![0; 60], vec![0; 20]] {
        let slot = world.b.port.slot().expect("room");
        slot[..bytes.len()].copy_from_slice(&bytes);
        world.b.port.commit(bytes.len());
    }
    other_gets_through(&mut world, second);
    other_gets_through(&mut world, first);
    let counters = world.a.engine.counters();
    let counted = [counters.strangers, counters.other_protocols];
    assert_eq!(counted, [1, 2], "{counters:?}");
}

/// A reader that does not read holds up nobody but itself, and its peer is not given more than the ring holds.
#[test]
fn a_lazy_reader_holds_up_nobody() {
    let (mut world, [first, second]) = busy_world();
    let lazy = world.b.programs.get_mut(&first.1).expect("known");
    lazy.is_lazy = true;
    other_gets_through(&mut world, second);
    let lazy = world.b.programs.get_mut(&first.1).expect("known");
    lazy.is_lazy = false;
    lazy.is_awake = true;
    other_gets_through(&mut world, first);
}

/// xorshift64
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Writes anything anywhere in what it shares with its engine.
fn scribble(segment: &Shm, state: &mut u64) {
    let near = segment
        .sending()
        .shared
        .producer
        .tail
        .load(Ordering::Relaxed);
    let word = match random(state) % 4 {
        0 => random(state),
        1 => near.wrapping_add(random(state) % 40_000),
        2 => near.wrapping_sub(random(state) % 40_000),
        _ => random(state) % 3,
    };
    let half = match random(state) % 2 {
        0 => segment.sending(),
        _ => segment.receiving(),
    };
    let shared = half.shared;
    match random(state) % 6 {
        0 => shared.producer.tail.store(word, Ordering::SeqCst),
        1 => shared.consumer.head.store(word, Ordering::SeqCst),
        2 => shared.producer.closed.store(word as u32, Ordering::SeqCst),
        3 => shared.producer.epoch.store(word, Ordering::SeqCst),
        4 => shared.wait.data.arm(word as usize % 8, word as u32, word),
        _ => shared.room.space.arm(word as usize % 8, word as u32, word),
    }
}

#[test]
fn a_scribbler_harms_nobody_else() {
    for seed in 1..200 {
        let (mut world, [first, second]) = busy_world();
        let scribbler = world.a.programs.remove(&first.0).expect("known");
        // It may get rubbish.
        world.b.programs.remove(&first.1);
        let mut state = seed * 0x9e37_79b9_7f4a_7c15;
        for _ in 0..100 {
            scribble(&scribbler.segment, &mut state);
            world.a.engine.notice(first.0);
            world.a.prod();
            world.step();
        }
        other_gets_through(&mut world, second);
    }
}
