//! Room and views, whatever happens to the connection between two calls.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::calls::api::{self, Committed, RingRoom, RingView};
use crate::state::record::flag;
use crate::testing::{Fd, Program, World};

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn reserve(program: Program, fd: Fd, len: usize) -> Option<RingRoom> {
    // SAFETY: the tests close nothing meanwhile.
    program.run(|| unsafe { api::reserve(fd.0, len) })
}

fn view(program: Program, fd: Fd) -> Option<RingView> {
    // SAFETY: as above.
    program.run(|| unsafe { api::view(fd.0) })
}

/// The room's pin is the program's.
fn end(program: Program, place: impl Sized) {
    program.run(|| drop(place));
}

fn commit(program: Program, room: RingRoom, n: usize) -> bool {
    program.run(|| {
        let room = room;
        api::commit(&room, n) == Ok(Committed::Sent)
    })
}

/// Sends in place what fits, and checks that it comes, over the ring's edge too.
#[test]
fn what_is_committed_comes() {
    let world = World::promoted();
    for round in 0..50 {
        let message = bytes(3000 + round);
        let mut room = reserve(world.client, world.near, message.len()).expect("room");
        for (at, part) in message.chunks(700).enumerate() {
            room.write(at * 700, part);
        }
        assert!(commit(world.client, room, message.len()));
        let seen = view(world.server, world.far).expect("bytes");
        let mut copy = vec![0; seen.len()];
        seen.read(0, &mut copy);
        assert_eq!(copy, message);
        let taken = world.server.run(|| api::consume(&seen, 1000));
        assert_eq!(taken, Ok(true));
        end(world.server, seen);
        let rest = world.server.receive(world.far, 9000);
        assert_eq!(rest.as_deref(), Ok(&message[1000..]));
    }
    assert!(world.is_on_rings());
}

#[test]
fn only_what_is_committed_is_sent() {
    let world = World::promoted();
    let mut room = reserve(world.client, world.near, 100).expect("room");
    room.write(0, &bytes(100));
    assert!(commit(world.client, room, 10));
    let room = reserve(world.client, world.near, 100).expect("room");
    end(world.client, room);
    assert_eq!(world.server.receive(world.far, 100), Ok(bytes(10)));
    assert!(view(world.server, world.far).is_none());
}

/// There is one room at a time, and none for more than is free.
#[test]
fn what_does_not_fit_gets_no_room() {
    let world = World::promoted();
    assert!(reserve(world.client, world.near, 0).is_none());
    assert!(reserve(world.client, world.near, 17 << 10).is_none());
    let room = reserve(world.client, world.near, 8 << 10).expect("room");
    assert!(reserve(world.client, world.near, 100).is_none());
    end(world.client, room);
    let room = reserve(world.client, world.near, 16 << 10).expect("the whole ring");
    end(world.client, room);
}

#[test]
#[should_panic(expected = "range.end <= self.len()")]
fn nothing_is_written_beside_the_room() {
    let world = World::promoted();
    let mut room = reserve(world.client, world.near, 100).expect("room");
    room.write(90, &[0; 11]);
}

/// The connection has left its ring: the bytes are still there, to be sent as others are.
#[test]
fn a_change_of_the_carrier_refuses() {
    type Event = fn(&World);
    let events: [Event; 2] = [
        |world| world.client.to_kernel(world.near),
        |world| world.server.to_kernel(world.far),
    ];
    for event in events {
        let world = World::promoted();
        let mut room = reserve(world.client, world.near, 100).expect("room");
        room.write(0, &bytes(100));
        event(&world);
        let refused = world.client.run(|| api::commit(&room, 100));
        assert_eq!(refused, Ok(Committed::Refused));
        let mut kept = vec![0; 100];
        room.read(0, &mut kept);
        end(world.client, room);
        assert_eq!(kept, bytes(100));
        world.client.record(world.near, |record| {
            assert!(!record.has(flag::RESERVED));
            let pins = record.midway.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(pins, 0);
        });
    }
}

#[test]
fn what_others_send_overtakes() {
    let world = World::promoted();
    let mut room = reserve(world.client, world.near, 100).expect("room");
    room.write(0, &bytes(100));
    assert_eq!(world.client.send(world.near, b"between"), Ok(7));
    let done = world.client.run(|| api::commit(&room, 100));
    assert_eq!(done, Ok(Committed::Overtaken));
    end(world.client, room);
    assert_eq!(world.server.receive(world.far, 99), Ok(b"between".to_vec()));
}

/// A view of bytes that somebody has taken meanwhile takes nothing.
#[test]
fn a_view_is_of_one_place() {
    let world = World::promoted();
    assert_eq!(world.client.send(world.near, b"abcdef"), Ok(6));
    let seen = view(world.server, world.far).expect("bytes");
    assert_eq!(world.server.receive(world.far, 2), Ok(b"ab".to_vec()));
    assert_eq!(world.server.run(|| api::consume(&seen, 3)), Ok(false));
    end(world.server, seen);
    assert_eq!(world.server.receive(world.far, 9), Ok(b"cdef".to_vec()));
}

/// The memory of a large ring is given back when nobody uses it, but not while there is room in it.
#[test]
fn a_ring_with_room_out_keeps_its_memory() {
    let world = World::promoted();
    let burst = bytes(200 << 10);
    let mut sent = 0;
    while let Ok(n) = world.client.send(world.near, &burst[sent..])
        && sent < burst.len()
    {
        sent += n;
    }
    let mut came = 0;
    while let Ok(part) = world.server.receive(world.far, 1 << 16) {
        came += part.len();
    }
    assert_eq!(came, sent);
    let carrier = || {
        world
            .client
            .record(world.near, |record| record.tx.carrier())
    };
    let shrink = || {
        let found = |fd: Fd| crate::state::process_group::record_of(fd.0).expect("a record");
        let number = world.client.run(|| found(world.near).1);
        let _ = world.client.run(|| crate::conn::shrink::after_use(number));
    };
    let before = carrier();
    let mut room = reserve(world.client, world.near, 30_000).expect("a large ring");
    room.write(0, &bytes(30_000));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(2500) {
        shrink();
        assert_eq!(carrier(), before);
        sleep(Duration::from_millis(20));
    }
    assert!(commit(world.client, room, 30_000));
    assert_eq!(world.server.receive(world.far, 1 << 16), Ok(bytes(30_000)));
    while carrier() == before {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "it shrinks afterwards"
        );
        shrink();
        sleep(Duration::from_millis(20));
    }
}
