//! Bytes arrive, once, in order, unchanged, and end where they should.

use std::time::Duration;

use firmware::{End, Refused};
use netstack::failover::Segment as _;
use netstack::phy::Conditions;

use crate::program::Shm;
use crate::world::{FROM_A, FROM_B, World};

const LONG: Duration = Duration::from_secs(2);

fn good() -> Conditions {
    Conditions {
        latency: Duration::from_micros(5),
        rate: Some(10_000_000_000),
        ..Conditions::default()
    }
}

fn bad() -> Conditions {
    Conditions {
        jitter: Duration::from_micros(40),
        loss: 0.03,
        duplication: 0.02,
        corruption: 0.02,
        ..good()
    }
}

/// Both programs write so much, end their streams, and read all.
fn exchange(conditions: &Conditions, seed: u64, connections: u64, level: u8, bytes: u64) -> World {
    exchange_in(
        World::new(conditions, seed),
        seed,
        connections,
        level,
        bytes,
    )
}

fn exchange_in(mut world: World, seed: u64, connections: u64, level: u8, bytes: u64) -> World {
    for name in 0..connections {
        let (a, b) = world.connect(name, level);
        let ends = [(&mut world.a, a, FROM_A), (&mut world.b, b, FROM_B)];
        for (host, endpoint, from) in ends {
            let program = host.programs.get_mut(&endpoint).expect("just made");
            program.write_to = Some(from + bytes);
            program.message = 1 + (seed + name) * 977 % 9000;
            program.gulp = 1 + (seed + name) * 1231 % 20_000;
        }
    }
    world.run_until(LONG, |world| {
        let hosts = [&world.a, &world.b];
        hosts
            .iter()
            .all(|host| host.gone.len() as u64 == connections)
    });
    for host in [&world.a, &world.b] {
        assert!(host.programs.values().all(|program| program.is_done()));
        assert!(host.gone.iter().all(|(_, how)| *how == End::Closed));
        assert_eq!(host.opened.len() as u64, connections);
        // [C11]
        assert_eq!(host.end_acked.len() as u64, connections);
    }
    world
}

#[test]
fn one_connection() {
    exchange(&good(), 1, 1, 0, 3_000_000);
}

#[test]
fn many_connections() {
    exchange(&good(), 2, 100, 0, 100_000);
}

#[test]
fn a_bad_network() {
    for seed in 3..23 {
        exchange(&bad(), seed, 1 + seed % 7, (seed % 3) as u8, 300_000);
    }
}

/// One end's engine, or both ends', is polled by the caller that waits for bytes.
#[test]
fn polled_by_who_waits() {
    for seed in 23..43 {
        let conditions = if seed % 4 == 0 { good() } else { bad() };
        let mut world = World::new(&conditions, seed);
        world.a.glances = true;
        world.b.glances = seed % 2 == 0;
        exchange_in(world, seed, 1 + seed % 7, (seed % 3) as u8, 300_000);
    }
}

/// [R9] When all is over nobody polls, and nothing is left.
#[test]
fn rests_when_all_is_over() {
    let mut world = exchange(&bad(), 99, 5, 1, 50_000);
    for _ in 0..100_000 {
        let next = [world.a.next(world.now), world.b.next(world.now)];
        let Some(next) = next.into_iter().flatten().min() else {
            return;
        };
        world.now = next.max(world.now + Duration::from_nanos(100));
        world.a.run(world.now);
        world.b.run(world.now);
    }
    panic!("somebody never rests");
}

/// Its frames are the new one's, also if the last frame was the old one's.
#[test]
fn a_peer_that_was_retired_can_be_met_again() {
    let mut world = exchange(&good(), 1, 1, 1, 10_000);
    let old = world.a.peer();
    world.a.engine.retire(old);
    world.a.prod();
    world.a.run(world.now);
    // [H6]
    world.now = world.b.next(world.now).expect("BYE is on its way");
    world.b.run(world.now);
    world.a.reborn(1);
    world.a.meet(2);
    assert_ne!(world.a.peer(), old);
    let (a, b) = world.connect(7, 1);
    world.run_until(LONG, |world| {
        world.a.opened.contains(&a) && world.b.opened.contains(&b)
    });
}

/// [F6] [F8] Whose library has given up is not opened, and the peer's program is not told that it is.
#[test]
fn a_connection_that_was_given_up() {
    let mut world = World::new(&good(), 7);
    world.connect(1, 0);
    // Once the link is up, an open of its own is on its way at once ([C8]).
    world.run_until(LONG, |world| world.b.opened.len() == 1);
    let (peer_a, peer_b) = (world.a.peer(), world.b.peer());
    let ours = Shm::new(0, FROM_A, FROM_B);
    let theirs = Shm::new(0, FROM_B, FROM_A);
    let expected = world.b.engine.expect(peer_b, 2, theirs.clone());
    assert!(expected.is_ok());
    ours.freeze();
    let opened = world.a.engine.open(world.now, peer_a, 2, ours);
    assert!(matches!(opened, Err(Refused::GivenUp(_))));
    world.a.prod();
    // Far longer than a packet takes.
    for _ in 0..1000 {
        world.now = world.now + Duration::from_micros(10);
        world.a.run(world.now);
        world.b.run(world.now);
    }
    assert!(!theirs.tail().is_open());
}
