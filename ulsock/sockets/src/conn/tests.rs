//! Moving bytes: on rings, on the kernel, and from the one to the other at an exact byte.

mod unix;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::begin::note_offsets;
use super::kept::KeptConnection;
use super::wait::Woken;
use super::wait_data::{self, Wanted};
use super::{Conn, managed};
use crate::runtime::deadline::Deadline;
use crate::runtime::signal::Seen;
use crate::state::record::Record;
use crate::testing::{ON_KERNEL, ON_RINGS, World};
use rendezvous::config::Spin;

const LARGE: usize = 8 << 20;

/// As many bytes as `n`, each with its own value.
fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// So many bytes that the server reads. A receive that does not wait asks the kernel once in a tick only, when a ring was
/// all that it expected: so it may take some calls.
fn read(world: &World, n: usize) -> Vec<u8> {
    let (mut all, begin) = (Vec::new(), Instant::now());
    while all.len() < n && begin.elapsed() < Duration::from_secs(20) {
        all.extend(world.server.receive(world.far, 1 << 16).unwrap_or_default());
    }
    all
}

#[test]
fn bytes_go_by_the_ring() {
    let world = World::promoted();
    let message = bytes(5000);
    assert_eq!(world.client.send(world.near, &message), Ok(5000));
    assert_eq!(world.server.receive(world.far, 9000), Ok(message));
    assert_eq!(world.server.receive(world.far, 1), Err(Errno::AGAIN));
    assert!(world.is_on_rings());
}

#[test]
fn a_peek_leaves_what_is_there() {
    let world = World::promoted();
    assert_eq!(world.client.send(world.near, b"abc"), Ok(3));
    assert_eq!(world.server.peek(world.far, 2), Ok(b"ab".to_vec()));
    assert_eq!(world.server.receive(world.far, 9), Ok(b"abc".to_vec()));
}

/// Nobody reads, and no larger ring is allowed: the kernel takes the rest, and at last nobody does. No byte is lost or told
/// twice. (The largest ring of all holds as much as the kernel would, and does not spill.)
#[test]
fn what_does_not_fit_spills() {
    let mut world = World::between(|client| client.largest = 0, |server| server.largest = 0);
    world.promote();
    let message = bytes(LARGE);
    let by_kernel = || {
        let count = |record: &Record| record.tx.counts.kernel_bytes.load(Ordering::Relaxed);
        world.client.record(world.near, count)
    };
    let (mut sent, before) = (0, by_kernel());
    while let Ok(n) = world.client.send(world.near, &message[sent..]) {
        sent += n;
    }
    assert!(sent < LARGE, "somebody must say that there is no room");
    assert!(by_kernel() > before, "the kernel takes what no ring holds");
    let mut all = Vec::new();
    while all.len() < LARGE {
        all.extend(read(&world, sent - all.len()));
        sent += world.client.send(world.near, &message[sent..]).unwrap_or(0);
    }
    assert!(all == message);
}

/// The bytes that are in the ring come by the kernel, in their order, once the peer has heard of it.
#[test]
fn a_demotion_leaves_no_byte_behind() {
    let world = World::promoted();
    assert_eq!(world.client.send(world.near, b"first "), Ok(6));
    world.client.to_kernel(world.near);
    assert_eq!(world.client.send(world.near, b"second"), Ok(6));
    assert_eq!(read(&world, 12), b"first second");
    assert_eq!(world.server.send(world.far, b"back"), Ok(4));
    assert_eq!(world.client.receive(world.near, 9), Ok(b"back".to_vec()));
    assert_eq!(world.client.carriers(world.near), ON_KERNEL);
}

#[test]
fn half_closed_it_goes_on_the_other_way() {
    let world = World::promoted();
    assert_eq!(world.client.send(world.near, b"last"), Ok(4));
    world.client.shut_down_sending(world.near);
    assert_eq!(world.server.receive(world.far, 9), Ok(b"last".to_vec()));
    assert_eq!(world.server.receive(world.far, 9), Ok(Vec::new()));
    assert_eq!(world.client.send(world.near, b"!"), Err(Errno::PIPE));
    assert_eq!(world.server.send(world.far, b"answer"), Ok(6));
    assert_eq!(world.client.receive(world.near, 9), Ok(b"answer".to_vec()));
}

#[test]
fn what_a_peer_sent_before_it_was_killed_arrives() {
    let world = World::promoted();
    assert_eq!(world.client.carriers(world.near), ON_RINGS);
    assert_eq!(world.client.send(world.near, b"testament"), Ok(9));
    world.client.is_killed();
    assert_eq!(
        world.server.receive(world.far, 99),
        Ok(b"testament".to_vec())
    );
    assert_eq!(world.server.receive(world.far, 99), Ok(Vec::new()));
}

/// As on the kernel: the first send draws a reset, and a later one fails.
#[test]
fn sends_to_a_killed_peer_fail() {
    let world = World::promoted();
    world.client.is_killed();
    let failed = (0..1000).find_map(|_| world.server.send(world.far, b"?").err());
    assert!(
        matches!(failed, Some(Errno::PIPE | Errno::CONNRESET)),
        "{failed:?}"
    );
}

/// Edge-triggered sets know it from before.
#[test]
fn the_stream_ends_in_the_same_place_when_the_kernel_counts_again() {
    let world = World::promoted();
    assert_eq!(world.client.send(world.near, &bytes(5000)), Ok(5000));
    assert_eq!(world.server.receive(world.far, 9000), Ok(bytes(5000)));
    world.server.run(|| {
        let conn = managed(world.far.0).and_then(Conn::enter).expect("rings");
        let read = conn.lock_rx().expect("the lock").state().pos;
        assert_eq!(conn.stream_end(), Some(read));
        assert!(note_offsets(&conn, 0, read));
        conn.record.rx.gate.open();
        assert_eq!(conn.stream_end(), Some(read));
    });
}

/// A message that comes between the look that found nothing and the wait: the wait sees it at once, and does not spin
/// until its time is over.
#[test]
fn what_came_since_the_look_ends_the_wait() {
    let mut world = World::between(|client| client.spin = Spin::Fixed(1_000_000), |_| {});
    world.promote();
    let entered = || Conn::enter(managed(world.near.0)?);
    let before = world.client.run(|| entered().map(|conn| conn.progress()));
    assert_eq!(world.server.send(world.far, b"x"), Ok(1));
    world.client.run(|| {
        let conn = entered().expect("it is managed");
        let me = conn.me;
        let wanted = Wanted {
            before: before.expect("it was managed"),
            least: 1,
            there: 0,
            urgent: true,
        };
        let (never, seen) = (Deadline::never(), Seen::now(me));
        let woken = wait_data::wait(conn, wanted, never, seen, &mut KeptConnection::default());
        assert!(matches!(woken, Woken::Look(_)));
        let after_no_failure = Duration::from_micros(48);
        assert_eq!(me.spin.budget(48), after_no_failure);
    });
}
