//! Unix sockets, where they are not as TCP.

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::calls::options;
use crate::conn::{Conn, managed};
use crate::runtime::thread::Thread;
use crate::runtime::way::Way;
use crate::state::record::{Record, flag};
use crate::state::table::{self, Slot};
use crate::state::young::{self, Entered};
use crate::testing::{Fd, ON_KERNEL, ON_RINGS, On, Program, World};
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

/// A receiver that is always found between a receive and its count, each time another one.
#[test]
fn who_is_behind_with_the_count_agrees_some_time() {
    let mut world = World::over_unix();
    let one_more = |record: &Record| record.count_unix(Way::Out, 1);
    world.client.record(world.near, one_more);
    while !world
        .client
        .record(world.near, |record| record.tx.gate.is_closed())
    {
        world.round_trip();
    }
    let count = |change: i64| {
        with_conn(world.client, world.near, |conn| {
            let mut held = conn.lock_tx().expect("the lock");
            let written = &mut held.state().written;
            *written = written.wrapping_add_signed(change);
        });
    };
    for _ in 0..1000 {
        count(1);
        world.round_trip();
        count(-1);
        world.round_trip();
    }
    assert_ne!(
        world.client.record(world.near, |record| record.reason()),
        Reason::Uncounted
    );
    count(-1);
    world.promote();
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
    with_conn(program, fd, |conn| {
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

/// Its peer closes with bytes unread: in the ring, in the kernel socket, or in both.
fn reset_with_unread(by_ring: bool, by_kernel: bool) -> World {
    let world = promoted();
    if by_ring {
        assert_eq!(world.client.send(world.near, b"by ring"), Ok(7));
    }
    if by_kernel {
        world.client.to_kernel(world.near);
        assert_eq!(world.client.send(world.near, b"by kernel"), Ok(9));
    }
    world.server.close(world.far);
    world
}

const UNREAD: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

fn with_conn<R>(program: Program, fd: Fd, act: impl FnOnce(&Conn<'_>) -> R) -> R {
    program.run(|| act(&managed(fd.0).and_then(Conn::enter).expect("it is managed")))
}

/// Whoever waits for room takes the error of the socket, and nobody is told again.
#[test]
fn a_send_that_has_waited_tells_of_the_reset_once() {
    for (by_ring, by_kernel) in UNREAD {
        let World { client, near, .. } = &reset_with_unread(by_ring, by_kernel);
        let error = with_conn(*client, *near, |conn| conn.end_of_wait());
        assert_eq!(error, Errno::CONNRESET, "{by_ring} {by_kernel}");
        assert_eq!(client.receive(*near, 9), Ok(Vec::new()));
        assert_eq!(client.send(*near, b"!"), Err(Errno::PIPE));
    }
}

/// The bytes that it has moved are all that the send tells.
#[test]
fn a_send_that_has_moved_some_bytes_loses_the_reset() {
    for (by_ring, by_kernel) in UNREAD {
        let World { client, near, .. } = &reset_with_unread(by_ring, by_kernel);
        with_conn(*client, *near, |conn| conn.end_after_part(Errno::PIPE));
        let end = client.receive(*near, 9);
        assert_eq!(end, Ok(Vec::new()), "{by_ring} {by_kernel}");
    }
}

/// Who is killed gives no hint; whoever looks next finds out: a receive, a send, a question for the error.
#[test]
fn a_peer_that_was_killed_with_bytes_unread_is_a_reset() {
    let world = killed_with_unread();
    assert_eq!(world.client.receive(world.near, 9), Err(Errno::CONNRESET));
    assert_eq!(world.client.receive(world.near, 9), Ok(Vec::new()));

    let world = killed_with_unread();
    with_conn(world.client, world.near, |conn| {
        conn.record.tx.glanced.store(0, Ordering::Relaxed);
        conn.record.tx.asked.store(0, Ordering::Relaxed);
        conn.look_for_end(0);
    });
    assert_eq!(world.client.send(world.near, b"!"), Err(Errno::PIPE));
    assert_eq!(world.client.receive(world.near, 9), Err(Errno::CONNRESET));

    let world = killed_with_unread();
    let error = || world.client.run(|| options::take_error(world.near.0));
    assert_eq!(error(), Some(Errno::CONNRESET));
    assert_eq!(error(), None);
    assert_eq!(world.client.receive(world.near, 9), Ok(Vec::new()));
}

#[test]
fn a_poll_after_a_kill_tells_of_the_reset() {
    let world = killed_with_unread();
    looks_at_kernel(&world);
    let events = world.client.poll(world.near, libc::POLLIN);
    assert_eq!(events, libc::POLLIN | libc::POLLHUP | libc::POLLERR);
}

/// A glance has shown that there is something to look at.
fn looks_at_kernel(world: &World) {
    let record = |record: &Record| record.set(flag::LOOK);
    world.client.record(world.near, record);
}

fn killed_with_unread() -> World {
    let world = promoted();
    assert_eq!(world.client.send(world.near, b"unread"), Ok(6));
    world.server.is_killed();
    world
}

/// By a jump, or because its thread is cancelled there.
#[test]
fn a_call_that_was_left_is_not_inside() {
    let world = World::over_unix();
    let fd = world.near.0;
    world.client.run(|| {
        let Slot::Young(life) = table::get(fd) else {
            panic!("it has no record yet");
        };
        for (flags, stays) in [(0, false), (libc::MSG_DONTWAIT, true)] {
            let Entered::Young(call) = young::enter(fd, life, Way::In) else {
                panic!("it can be entered");
            };
            let call = call.with_flags(flags);
            assert!(young::is_inside(fd, Way::In));
            Thread::me().expect("a thread").bed().flights.end_all();
            assert_eq!(
                young::is_inside(fd, Way::In),
                stays,
                "one that does not sleep"
            );
            if stays {
                call.done(0);
            }
        }
    });
}

/// Unix sockets tell of room by this event, too.
#[test]
fn room_is_waited_for_by_each_of_its_names() {
    let world = promoted();
    while world
        .client
        .send(world.near, &[0; 1 << 12])
        .is_ok_and(|_| world.client.carriers(world.near)[0] == On::Ring)
    {
        let is_full = |conn: &Conn<'_>| {
            let armed = conn.arm(libc::POLLWRBAND, 1).expect("a slot");
            conn.disarm(armed);
            armed.space.is_some()
        };
        if with_conn(world.client, world.near, is_full) {
            return;
        }
    }
    panic!("it never waits for room");
}

#[test]
fn room_in_the_kernel_is_waited_for_by_each_of_its_names() {
    let world = promoted();
    world.client.to_kernel(world.near);
    world.round_trip();
    let asked = with_conn(world.client, world.near, |conn| {
        conn.kernel_interest(libc::POLLWRBAND)
    });
    assert_ne!(asked & libc::POLLOUT, 0);
}
