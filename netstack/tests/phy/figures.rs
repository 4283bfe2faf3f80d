//! What a frame costs on each port, between two namespaces: measured, not asserted.
//!
//!     cargo test -p netstack --release --features std --test phy figures -- --ignored --nocapture

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netstack::phy::Port;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::frames::{Family, PORT, commit, frame_for, now, route};
use crate::namespace::World;
use crate::rig::{AnyPort, Kind};

const KINDS: [Kind; 5] = [
    Kind::Sim,
    Kind::Packet,
    Kind::Xdp,
    Kind::XdpNative,
    Kind::Udp,
];
const LENGTH: usize = 64;
/// Frames of full length that hold 16 KiB.
const MANY: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Spinning,
    Asleep,
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).expect("a core");
}

/// The next frame; `false` if all is over.
fn take(port: &mut AnyPort, wait: Wait, over: &AtomicBool) -> bool {
    loop {
        if port.receive(now()).is_some() {
            return true;
        }
        if over.load(Ordering::Relaxed) {
            return false;
        }
        match port.wake() {
            Some(wake) if wait == Wait::Asleep => {
                let mut fds = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
                poll(&mut fds, None).expect("poll");
            }
            _ => core::hint::spin_loop(),
        }
    }
}

/// Half of the round trips, and 99 of 100, are shorter.
fn show(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[times.len() * part / 100].as_nanos() as f64 / 1000.0;
    println!("{name:32} {:7.1} {:7.1} us", at(50), at(99));
}

/// Frames of one length there and as many back.
#[derive(Clone, Copy)]
struct Exchange {
    frames: usize,
    length: usize,
}

const SHORT: Exchange = Exchange {
    frames: 1,
    length: LENGTH,
};
const LONG: Exchange = Exchange {
    frames: MANY,
    length: 1514,
};

fn round_trips(kind: Kind, wait: Wait, what: Exchange, count: usize) -> Vec<Duration> {
    let mut ends = kind.ends(1500);
    let (one, other) = ends.both();
    let there = route(Family::V4, 1, one.capabilities(), other.capabilities());
    let back = route(Family::V4, 2, other.capabilities(), one.capabilities());
    let offload = [&*one, &*other].map(|port| port.capabilities().offload);
    let there = frame_for(offload[0], &there, what.length, 1);
    let back = frame_for(offload[1], &back, what.length, 1);
    let (over, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let send = |port: &mut AnyPort, frame: &[u8]| {
        for _ in 0..what.frames {
            commit(port, frame);
        }
        port.flush(now()).expect("to send");
    };
    let take_all = |port: &mut AnyPort, over| (0..what.frames).all(|_| take(port, wait, over));
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            while take_all(other, &over) {
                send(other, &back);
            }
        });
        pin(0);
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            send(one, &there);
            take_all(one, &never);
            times.push(start.elapsed());
        }
        over.store(true, Ordering::Relaxed);
        // A sleeper is woken by it.
        send(one, &there);
        times
    })
}

/// Kernel UDP over the same veth, both ends in blocking calls.
fn kernel_round_trips(count: usize) -> Vec<Duration> {
    let world = World::new(1500, 1);
    let bind = |ip| UdpSocket::bind((ip, PORT)).expect("a port");
    let server = world.hosts[1].within(|| bind("10.9.0.2"));
    let client = world.hosts[0].within(|| bind("10.9.0.1"));
    client.connect(("10.9.0.2", PORT)).expect("a peer");
    server.connect(("10.9.0.1", PORT)).expect("a peer");
    let payload = [0; LENGTH - 42];
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            // An empty datagram ends it.
            while server.recv(&mut [0; 100]).expect("a datagram") > 0 {
                server.send(&payload).expect("to send");
            }
        });
        pin(0);
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            client.send(&payload).expect("to send");
            client.recv(&mut [0; 100]).expect("a datagram");
            times.push(start.elapsed());
        }
        client.send(&[]).expect("to send");
        times
    })
}

/// Frames of full length, one way, as fast as they go: received, of those sent.
fn stream(kind: Kind) {
    let mut ends = kind.ends(1500);
    let (one, other) = ends.both();
    let route = route(Family::V4, 1, one.capabilities(), other.capabilities());
    let template = frame_for(one.capabilities().offload, &route, 1514, 1);
    let over = AtomicBool::new(false);
    let time = Duration::from_secs(1);
    let (sent, received) = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            pin(1);
            let mut count = 0u64;
            while take(other, Wait::Spinning, &over) {
                count += 1;
            }
            count
        });
        pin(0);
        let (start, mut sent) = (Instant::now(), 0u64);
        while start.elapsed() < time {
            for _ in 0..32 {
                let Some(slot) = one.slot() else { break };
                slot[..1514].copy_from_slice(&template);
                one.commit(1514);
                sent += 1;
            }
            one.flush(now()).expect("to send");
        }
        over.store(true, Ordering::Relaxed);
        (sent, receiver.join().expect("the receiver"))
    });
    let rate = received as f64 * 1514.0 * 8e-9 / time.as_secs_f64();
    println!("{kind:?}: {rate:.1} Gb/s, {received} of {sent} frames of 1514 bytes");
}

#[test]
#[ignore = "measures"]
fn figures() {
    println!("{:32} {:>7} {:>7}", "64 B there and back", "50 %", "99 %");
    for kind in KINDS {
        show(
            &format!("{kind:?}, spinning"),
            round_trips(kind, Wait::Spinning, SHORT, 20_000),
        );
        show(
            &format!("{kind:?}, spinning, 16 KiB"),
            round_trips(kind, Wait::Spinning, LONG, 5000),
        );
        if kind != Kind::Sim {
            show(
                &format!("{kind:?}, asleep"),
                round_trips(kind, Wait::Asleep, SHORT, 5000),
            );
        }
    }
    show("kernel UDP, asleep", kernel_round_trips(5000));
    KINDS.into_iter().for_each(stream);
}
