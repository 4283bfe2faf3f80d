//! Unix sockets, where they are not as TCP.

use rustix::io::Errno;

use crate::conn::{Conn, managed};
use crate::runtime::way::Way;
use crate::testing::{Fd, ON_KERNEL, ON_RINGS, Program, World};
use rendezvous::reason::Reason;

fn promoted() -> World {
    let mut world = World::over_unix();
    world.promote();
    world
}

#[test]
fn bytes_go_by_the_ring_and_back_to_the_kernel() {
    let world = promoted();
    assert_eq!(world.client.send(world.near, b"by ring "), Ok(8));
    world.client.to_kernel(world.near);
    assert_eq!(world.client.send(world.near, b"by kernel"), Ok(9));
    let mut all = Vec::new();
    while all.len() < 17 {
        all.extend(world.server.receive(world.far, 99).unwrap_or_default());
    }
    assert_eq!(all, b"by ring by kernel");
    world.round_trip();
    assert_eq!(world.client.carriers(world.near), ON_KERNEL);
}

/// A call that went past us would shift all that follows: such a connection never gets onto a ring.
#[test]
fn who_has_counted_wrong_stays_on_the_kernel() {
    for (way, extra) in [(Way::Out, 1), (Way::In, 5)] {
        let world = World::over_unix();
        world
            .client
            .record(world.near, |record| record.count_unix(way, extra));
        for _ in 0..200 {
            world.round_trip();
        }
        assert!(!world.is_on_rings(), "{way:?}");
    }
}

#[test]
fn who_never_agrees_is_left_alone() {
    let world = World::over_unix();
    world
        .client
        .record(world.near, |record| record.count_unix(Way::Out, 1));
    for _ in 0..3000 {
        world.round_trip();
    }
    let reason = world.client.record(world.near, |record| record.reason());
    assert_eq!(reason, Reason::Uncounted);
}

/// Peeked bytes are counted when they are taken.
#[test]
fn a_peek_is_not_counted() {
    let mut world = World::over_unix();
    assert_eq!(world.client.send(world.near, b"abc"), Ok(3));
    assert_eq!(world.server.peek(world.far, 9), Ok(b"abc".to_vec()));
    assert_eq!(world.server.receive(world.far, 9), Ok(b"abc".to_vec()));
    world.promote();
    assert_eq!(world.client.send(world.near, b"def"), Ok(3));
    assert_eq!(world.server.receive(world.far, 9), Ok(b"def".to_vec()));
    assert_eq!(world.server.carriers(world.far), ON_RINGS);
}

#[test]
fn closing_with_unread_bytes_resets() {
    let world = promoted();
    assert_eq!(world.client.send(world.near, b"unread"), Ok(6));
    assert_eq!(world.server.send(world.far, b"read"), Ok(4));
    world.server.close(world.far);
    assert_eq!(world.client.send(world.near, b"!"), Err(Errno::PIPE));
    assert_eq!(
        world.client.receive(world.near, 9),
        Ok(b"read".to_vec()),
        "what it sent comes first"
    );
    assert_eq!(world.client.receive(world.near, 9), Err(Errno::CONNRESET));
    assert_eq!(world.client.receive(world.near, 9), Ok(Vec::new()));
}

#[test]
fn closing_with_nothing_unread_is_the_end() {
    let world = promoted();
    assert_eq!(world.client.send(world.near, b"read"), Ok(4));
    assert_eq!(world.server.receive(world.far, 9), Ok(b"read".to_vec()));
    world.server.close(world.far);
    assert_eq!(world.client.receive(world.near, 9), Ok(Vec::new()));
    assert_eq!(world.client.send(world.near, b"!"), Err(Errno::PIPE));
}

/// Unlike TCP's, a peer that reads no more lets sends fail at once; it can still read what is there.
#[test]
fn who_reads_no_more_lets_sends_fail() {
    let world = promoted();
    assert_eq!(world.client.send(world.near, b"before"), Ok(6));
    world.server.shut_down_receiving(world.far);
    assert_eq!(world.client.send(world.near, b"!"), Err(Errno::PIPE));
    assert_eq!(world.server.receive(world.far, 9), Ok(b"before".to_vec()));
    assert_eq!(world.server.receive(world.far, 9), Ok(Vec::new()));
    assert_eq!(world.server.send(world.far, b"after"), Ok(5));
    assert_eq!(world.client.receive(world.near, 9), Ok(b"after".to_vec()));
}

/// What a thread that sleeps in a receive does when the kernel socket wakes it.
fn wakes_by_kernel(program: Program, fd: Fd) {
    program.run(|| {
        let conn = managed(fd.0).and_then(Conn::enter).expect("it is managed");
        conn.note_kernel_events(conn.kernel_events());
    });
}

/// The peer lives, and has bytes of ours to read: that we read no more is no reset.
#[test]
fn ones_own_shutdown_is_not_the_peers_death() {
    let world = promoted();
    assert_eq!(world.client.send(world.near, b"quit"), Ok(4));
    world.client.shut_down_both(world.near);
    wakes_by_kernel(world.client, world.near);
    assert_eq!(world.client.receive(world.near, 9), Ok(Vec::new()));
    assert_eq!(world.server.receive(world.far, 9), Ok(b"quit".to_vec()));
}

#[test]
fn two_that_read_no_more_live() {
    let world = promoted();
    assert_eq!(world.client.send(world.near, b"before"), Ok(6));
    world.client.shut_down_receiving(world.near);
    world.server.shut_down_receiving(world.far);
    wakes_by_kernel(world.client, world.near);
    assert_eq!(world.client.receive(world.near, 9), Ok(Vec::new()));
}

/// Killed, and we have shut down what we receive before: still a reset.
#[test]
fn a_death_is_seen_past_ones_own_shutdown() {
    let world = promoted();
    assert_eq!(world.client.send(world.near, b"unread"), Ok(6));
    world.client.shut_down_receiving(world.near);
    world.server.is_killed();
    wakes_by_kernel(world.client, world.near);
    assert_eq!(world.client.receive(world.near, 9), Err(Errno::CONNRESET));
    assert_eq!(world.client.receive(world.near, 9), Ok(Vec::new()));
}
