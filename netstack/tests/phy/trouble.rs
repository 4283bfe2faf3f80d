//! What befalls an interface, and a port that comes and goes.

use std::thread;
use std::time::{Duration, Instant};

use netstack::phy::{Port, Trouble};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::frames::{Family, await_frame, fetch, frame, now, post, route};
use crate::namespace::{INTERFACE, close};
use crate::rig::{AnyPort, Ends, Kind};
use crate::{on_every_kernel_port, on_ports};

on_every_kernel_port!(reopened, down_and_up, gone, smaller);
// When an interface is gone its routes are, and the socket goes by another if there is one: `sockets.rs`.
on_ports!(udp Udp: reopened, down_and_up, smaller);

const MTU: usize = 1500;

fn exchange(ends: &mut Ends, length: usize) {
    for from in [1, 2] {
        let (sender, receiver) = ends.from(from);
        let route = route(
            Family::V4,
            from,
            sender.capabilities(),
            receiver.capabilities(),
        );
        post(sender, &frame(&route, length, 1));
        assert_eq!(fetch(receiver), frame(&route, length, 1));
    }
}

/// Closed, and opened again at once.
fn reopened(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let world = ends.world.take().expect("a kernel");
    for _ in 0..10 {
        exchange(&mut ends, 1000);
        for host in [1, 2] {
            let gone = std::mem::replace(&mut ends.ports[host - 1], nothing());
            close(gone);
            ends.ports[host - 1] = kind.open(&world, host as u8);
        }
    }
    exchange(&mut ends, 1000);
}

/// A port that stands where none is.
fn nothing() -> AnyPort {
    Box::new(netstack::phy::Sim::pair(&Default::default(), 100, 1).0)
}

/// Sends the same frame until it arrives.
fn insist(sender: &mut AnyPort, receiver: &mut AnyPort, bytes: &[u8]) {
    let start = Instant::now();
    loop {
        if let Some(slot) = sender.slot() {
            slot[..bytes.len()].copy_from_slice(bytes);
            sender.commit(bytes.len());
        }
        let _ = sender.flush(now());
        if await_frame(receiver, 10).is_some_and(|got| got == bytes) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

/// Frames that are still on their way.
fn drain(port: &mut AnyPort) {
    while await_frame(port, 30).is_some() {}
}

fn down_and_up(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let world = ends.world.take().expect("a kernel");
    for _ in 0..3 {
        exchange(&mut ends, 500);
        world.hosts[0].ip(&format!("link set {INTERFACE} down"));
        let (one, other) = ends.both();
        let there = route(Family::V4, 1, one.capabilities(), other.capabilities());
        let sent = frame(&there, 500, 2);
        let slot = one.slot().expect("room");
        slot[..500].copy_from_slice(&sent);
        one.commit(500);
        assert_eq!(one.flush(now()), Err(Trouble::Down));
        assert!(one.receive(now()).is_none());
        quiet(one);
        // To the other end it is a cable that is out.
        for _ in 0..3 {
            let back = route(Family::V4, 2, other.capabilities(), one.capabilities());
            let slot = other.slot().expect("room");
            slot[..500].copy_from_slice(&frame(&back, 500, 3));
            other.commit(500);
            let _ = other.flush(now());
        }
        world.hosts[0].ip(&format!("link set {INTERFACE} up"));
        insist(one, other, &sent);
        drain(other);
        insist(
            other,
            one,
            &frame(
                &route(Family::V4, 2, other.capabilities(), one.capabilities()),
                400,
                1,
            ),
        );
        drain(one);
    }
    exchange(&mut ends, 500);
}

/// A sleeper on the port is not kept awake by an error that was asked for.
fn quiet(port: &mut AnyPort) {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    let _ = port.trouble();
    let wake = port.wake().expect("a descriptor");
    let mut fds = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
    poll(&mut fds, Some(&wait)).expect("poll");
    assert_eq!(fds[0].revents(), PollFlags::empty());
}

/// The interface is deleted under the port.
fn gone(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let world = ends.world.take().expect("a kernel");
    exchange(&mut ends, 500);
    world.hosts[1].ip(&format!("link del {INTERFACE}"));
    thread::sleep(Duration::from_millis(20));
    for port in &mut ends.ports {
        for _ in 0..1000 {
            if let Some(slot) = port.slot() {
                slot[..100].fill(1);
                port.commit(100);
            }
            let answer = port.flush(now());
            assert!(
                matches!(answer, Err(Trouble::Gone | Trouble::Down)),
                "{answer:?}"
            );
            assert!(port.receive(now()).is_none());
        }
        let _ = port.counters();
        let _ = port.trouble();
    }
}

/// The MTU shrinks: what is too long is lost, and holds up nothing.
fn smaller(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let world = ends.world.take().expect("a kernel");
    for host in &world.hosts {
        host.ip(&format!("link set {INTERFACE} mtu 1300"));
    }
    let (one, other) = ends.both();
    let route = route(Family::V4, 1, one.capabilities(), other.capabilities());
    for seed in 0..2000 {
        let slot = one.slot().expect("room");
        slot[..1514].copy_from_slice(&frame(&route, 1514, seed));
        one.commit(1514);
        let _ = one.flush(now());
        let slot = one.slot().expect("room");
        slot[..1200].copy_from_slice(&frame(&route, 1200, seed));
        one.commit(1200);
        let _ = one.flush(now());
        let mut got = fetch(other);
        if got.len() == 1514 {
            got = fetch(other);
        }
        assert_eq!(got, frame(&route, 1200, seed));
    }
}
