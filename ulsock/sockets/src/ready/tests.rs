//! Readiness of connections on rings, level and edge.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use libc::{EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP, POLLIN, POLLOUT, POLLRDHUP};
use rustix::net::RecvFlags;

use crate::calls::api;
use crate::ready::epoll;
use crate::state::process_group;
use crate::state::record::Record;
use crate::testing::World;

const IN: u32 = EPOLLIN as u32;

#[test]
fn poll_tells_what_a_ring_holds() {
    let world = World::promoted();
    let ask = || world.server.poll(world.far, POLLIN | POLLOUT);
    assert_eq!(ask(), POLLOUT);
    assert_eq!(world.client.send(world.near, b"x"), Ok(1));
    assert_eq!(ask(), POLLIN | POLLOUT);
    assert_eq!(world.server.receive(world.far, 9), Ok(b"x".to_vec()));
    assert_eq!(ask(), POLLOUT);
}

#[test]
fn a_level_is_told_as_long_as_it_lasts() {
    let world = World::promoted();
    let set = world.server.epoll();
    world.server.epoll_add(set, world.far, EPOLLIN);
    assert_eq!(world.server.epoll_wait(set), []);
    assert_eq!(world.client.send(world.near, b"xy"), Ok(2));
    for _ in 0..3 {
        assert_eq!(world.server.epoll_wait(set), [(world.far, IN)]);
    }
    assert_eq!(world.server.receive(world.far, 9), Ok(b"xy".to_vec()));
    assert_eq!(world.server.epoll_wait(set), []);
}

#[test]
fn an_edge_is_told_once() {
    let world = World::promoted();
    let set = world.server.epoll();
    world.server.epoll_add(set, world.far, EPOLLIN | EPOLLET);
    for byte in [b"x", b"y"] {
        assert_eq!(world.client.send(world.near, byte), Ok(1));
        assert_eq!(world.server.epoll_wait(set), [(world.far, IN)]);
        assert_eq!(world.server.epoll_wait(set), []);
    }
    assert_eq!(world.server.receive(world.far, 9), Ok(b"xy".to_vec()));
}

/// Its registration is the kernel's first, and becomes ours in the middle.
#[test]
fn a_member_is_told_of_before_and_after_its_promotion() {
    let mut world = World::plain();
    let set = world.server.epoll();
    world.server.epoll_add(set, world.far, EPOLLIN);
    for promoted in [false, true] {
        assert_eq!(world.client.send(world.near, b"x"), Ok(1));
        assert_eq!(
            world.server.epoll_wait(set),
            [(world.far, IN)],
            "{promoted}"
        );
        assert_eq!(world.server.receive(world.far, 9), Ok(b"x".to_vec()));
        assert_eq!(world.server.epoll_wait(set), [], "{promoted}");
        world.promote();
    }
}

#[test]
fn a_full_ring_is_not_writable_until_somebody_reads() {
    let world = World::promoted();
    let block = vec![0; 1 << 16];
    while world.client.send(world.near, &block).is_ok() {}
    assert_eq!(world.client.poll(world.near, POLLOUT), 0);
    while world.server.receive(world.far, 1 << 20).is_ok() {}
    assert_eq!(world.client.poll(world.near, POLLOUT), POLLOUT);
}

#[test]
fn a_killed_peer_is_told() {
    let world = World::promoted();
    let set = world.server.epoll();
    world
        .server
        .epoll_add(set, world.far, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
    world.client.is_killed();
    assert_ne!(
        world.server.poll(world.far, POLLIN | POLLRDHUP) & POLLRDHUP,
        0
    );
    let told = world.server.epoll_wait(set);
    assert!(
        told.iter()
            .any(|(_, events)| events & EPOLLRDHUP as u32 != 0),
        "{told:?}"
    );
}

/// The kernel wakes who waits for room, and so do we; but who then finds none still waits.
#[test]
fn a_set_hears_of_room_also_after_the_buffer_was_changed() {
    let world = World::promoted();
    let set = world.client.epoll();
    world.client.epoll_add(set, world.near, EPOLLOUT);
    while world.client.send(world.near, &[0; 1 << 16]).is_ok() {}
    assert_eq!(world.client.epoll_wait(set), []);
    world
        .client
        .run(|| api::option_set(world.near.0, libc::SOL_SOCKET, libc::SO_SNDBUF));
    assert_eq!(world.client.epoll_wait(set), []);
    while world.server.receive(world.far, 1 << 20).is_ok() {}
    assert_eq!(
        world.client.epoll_wait(set),
        [(world.near, EPOLLOUT as u32)]
    );
}

/// Between the two the kernel may have had something to tell that was never asked for.
#[test]
fn what_holds_is_news_to_a_member_that_becomes_ours_again() {
    let world = World::promoted();
    let set = world.server.epoll();
    world.server.epoll_add(set, world.far, EPOLLIN | EPOLLET);
    assert_eq!(world.client.send(world.near, b"x"), Ok(1));
    assert_eq!(world.server.epoll_wait(set), [(world.far, IN)]);
    world.server.run(|| {
        let (_, number, _) = process_group::record_of(world.far.0).expect("a record");
        epoll::restore(number);
        epoll::convert(number);
    });
    assert_eq!(world.server.epoll_wait(set), [(world.far, IN)]);
    assert_eq!(world.server.epoll_wait(set), []);
}

/// As splice does, on a connection that has been returned to the kernel for it.
#[test]
fn bytes_behind_those_that_were_taken_past_us_are_told() {
    for world in [World::promoted(), World::over_unix()] {
        while !world.server.is_managed(world.far) {
            world.round_trip();
        }
        let set = world.server.epoll();
        world.server.epoll_add(set, world.far, EPOLLIN | EPOLLET);
        world.server.run(|| api::to_kernel(world.far.0));
        for round in 0..3 {
            assert_eq!(world.client.send(world.near, b"abc"), Ok(3), "{round}");
            // The kernel may hold a few bytes back until the last are acknowledged.
            let told = (0..1000).find_map(|_| {
                std::thread::sleep(Duration::from_millis(1));
                let told = world.server.epoll_wait(set);
                (!told.is_empty()).then_some(told)
            });
            assert_eq!(told, Some(vec![(world.far, IN)]), "{round}");
            // SAFETY: the test holds it open.
            let socket = unsafe { BorrowedFd::borrow_raw(world.far.0) };
            let taken = rustix::net::recv(socket, &mut [0; 99], RecvFlags::DONTWAIT);
            assert_eq!(taken.map(|(n, _)| n), Ok(3));
        }
    }
}

/// Another thread's receive is in the middle: what it has taken from a Unix socket is not there any more, and not counted.
#[test]
fn bytes_behind_those_that_are_not_counted_yet_are_told() {
    let world = World::over_unix();
    let gate = |act: fn(&Record)| world.server.record(world.far, act);
    gate(|record| assert!(record.rx.gate.enter()));
    while !world.server.is_managed(world.far) {
        world.round_trip();
    }
    let set = world.server.epoll();
    world.server.epoll_add(set, world.far, EPOLLIN | EPOLLET);
    assert_eq!(world.client.send(world.near, b"these, many"), Ok(11));
    assert_eq!(world.server.epoll_wait(set), [(world.far, IN)]);
    assert_eq!(world.server.epoll_wait(set), []);
    // SAFETY: the test holds it open.
    let socket = unsafe { BorrowedFd::borrow_raw(world.far.0) };
    let taken = rustix::net::recv(socket, &mut [0; 99], RecvFlags::DONTWAIT);
    assert_eq!(taken.map(|(n, _)| n), Ok(11));
    assert_eq!(world.client.send(world.near, b"new"), Ok(3));
    assert_eq!(world.server.epoll_wait(set), [(world.far, IN)]);
    assert_eq!(world.server.epoll_wait(set), []);
    gate(|record| record.rx.gate.leave());
}
