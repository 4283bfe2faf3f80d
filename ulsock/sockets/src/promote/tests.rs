//! From kernel TCP to rings, and who dies on the way.

use rendezvous::reason::Reason;
use rustix::io::Errno;

use crate::state::record::Record;
use crate::testing::{ON_KERNEL, ON_RINGS, World};

/// Round trips after which a connection is on rings for certain.
const LAST_STEP: usize = 11;

#[test]
fn two_programs_find_each_other() {
    let mut world = World::plain();
    assert_eq!(world.client.carriers(world.near), ON_KERNEL);
    world.promote();
    assert!(world.client.is_managed(world.near) && world.server.is_managed(world.far));
    world.round_trip();
}

/// What the kernel was given before arrives before what goes by the ring.
#[test]
fn bytes_on_their_way_keep_their_order() {
    let world = World::plain();
    let (mut sent, mut read) = (0_u8, Vec::new());
    while world.client.carriers(world.near) != ON_RINGS && sent < 250 {
        for _ in 0..3 {
            sent += 1;
            assert_eq!(world.client.send(world.near, &[sent]), Ok(1));
        }
        // One byte stays on its way each time.
        read.extend(world.server.receive(world.far, 2).expect("two bytes"));
        assert_eq!(world.server.send(world.far, b"-"), Ok(1));
        let _ = world.client.receive(world.near, 9);
    }
    while let Ok(some) = world.server.receive(world.far, 99) {
        read.extend(some);
    }
    assert_eq!(world.client.carriers(world.near), ON_RINGS);
    assert_eq!(read, (1..=sent).collect::<Vec<u8>>());
}

#[test]
fn without_a_peer_that_knows_us_it_stays() {
    let world = World::between(|_| {}, |server| server.enabled = false);
    for _ in 0..50 {
        world.round_trip();
    }
    assert_eq!(world.client.carriers(world.near), ON_KERNEL);
    assert_eq!(
        world.client.record(world.near, Record::reason),
        Reason::NoPeer
    );
}

#[test]
fn a_pinned_connection_is_left_alone() {
    let world = World::plain();
    world.client.to_kernel(world.near);
    for _ in 0..50 {
        world.round_trip();
    }
    assert_eq!(world.client.carriers(world.near), ON_KERNEL);
    assert_eq!(
        world.client.record(world.near, Record::reason),
        Reason::Call
    );
}

/// The client is killed after each of its first calls: before its offer, after it, before and after it is confirmed.
#[test]
fn a_client_that_is_killed_at_any_step() {
    for steps in 0..=LAST_STEP {
        let world = World::plain();
        (0..steps).for_each(|_| world.round_trip());
        assert!(steps < LAST_STEP || world.is_on_rings());
        assert_eq!(world.client.send(world.near, b"end"), Ok(3));
        world.client.is_killed();
        assert_eq!(
            world.server.receive(world.far, 9),
            Ok(b"end".to_vec()),
            "{steps}"
        );
        let end = world.server.receive(world.far, 9);
        assert!(
            end == Ok(Vec::new()) || end == Err(Errno::CONNRESET),
            "{steps}: {end:?}"
        );
    }
}

/// The same of the server.
#[test]
fn a_server_that_is_killed_at_any_step() {
    for steps in 0..=LAST_STEP {
        let world = World::plain();
        (0..steps).for_each(|_| world.round_trip());
        assert!(steps < LAST_STEP || world.is_on_rings());
        assert_eq!(world.server.send(world.far, b"end"), Ok(3));
        world.server.is_killed();
        assert_eq!(
            world.client.receive(world.near, 9),
            Ok(b"end".to_vec()),
            "{steps}"
        );
        let end = world.client.receive(world.near, 9);
        assert!(
            end == Ok(Vec::new()) || end == Err(Errno::CONNRESET),
            "{steps}: {end:?}"
        );
    }
}
