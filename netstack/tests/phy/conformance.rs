//! What holds for every port.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netstack::phy::Port;
use netstack::wire::frame::{ETHERNET, Offload, parse};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::frames::{Family, await_frame, fetch, frame, least, now, post, route, seen, write};
use crate::namespace::Namespace;
use crate::on_every_port;
use crate::rig::{AnyPort, Ends, Kind};

on_every_port!(
    every_size,
    jumbo_frames,
    full_ring,
    slot_again,
    overrun,
    lengths,
    both_ways_at_once,
    wake_up,
    counted,
);

const MTU: usize = 1500;

/// There and back: the bytes are the same, and the port says truly whether a checksum is checked.
fn echo(ends: &mut Ends, family: Family, length: usize) {
    for from in [1, 2] {
        let (sender, receiver) = ends.from(from);
        let route = route(family, from, sender.capabilities(), receiver.capabilities());
        let sent = frame(&route, length, from.into());
        post(sender, &sent);
        let received = fetch(receiver);
        let same = seen(receiver, received.clone()) == seen(receiver, sent);
        assert!(same, "{length} bytes of {family:?} from {from}");
        let offload = receiver.capabilities().offload;
        let read = parse(&received, offload).expect("a datagram");
        assert_eq!(read.addresses, route.addresses);
    }
}

fn every_size(kind: Kind) {
    let mut ends = kind.ends(MTU);
    assert_eq!(ends.ports[0].capabilities().mtu, MTU);
    for family in [Family::V4, Family::V6] {
        for length in least(family)..=ETHERNET + MTU {
            echo(&mut ends, family, length);
        }
    }
}

fn jumbo_frames(kind: Kind) {
    const JUMBO: usize = 9000;
    let mut ends = kind.ends(JUMBO);
    let page = 4096;
    let around = |length: usize| length - 300..length + 300;
    let pages = around(page).chain(around(2 * page));
    let lengths = (1000..=ETHERNET + JUMBO).step_by(97).chain(pages);
    for length in lengths.chain([ETHERNET + JUMBO]) {
        echo(&mut ends, Family::V4, length);
    }
    echo(&mut ends, Family::V6, ETHERNET + JUMBO);
}

/// A ring takes frames until it is full, says so, and takes more once they have left.
fn full_ring(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let (sender, receiver) = ends.both();
    let route = route(
        Family::V4,
        1,
        sender.capabilities(),
        receiver.capabilities(),
    );
    let mut room = None;
    for round in 0..20 {
        let mut count = 0;
        while let Some(slot) = sender.slot() {
            write(slot, &route, 60 + count, round);
            sender.commit(60 + count);
            count += 1;
        }
        assert!((32..=1024).contains(&count));
        assert_eq!(*room.get_or_insert(count), count, "slots are not lost");
        // One without a slot is refused.
        sender.commit(60);
        sender.flush(now()).expect("to send");
        for number in 0..count {
            assert_eq!(fetch(receiver), frame(&route, 60 + number, round));
        }
        assert!(receiver.receive(now()).is_none());
    }
    assert_eq!(sender.counters().refused, 20);
}

/// What is not committed is not sent, and its slot is the next one's.
fn slot_again(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let (sender, receiver) = ends.both();
    let route = route(
        Family::V4,
        1,
        sender.capabilities(),
        receiver.capabilities(),
    );
    for seed in 0..5000 {
        let slot = sender.slot().expect("room");
        assert_eq!(slot.len(), ETHERNET + MTU);
        slot.fill(seed as u8);
    }
    sender.flush(now()).expect("nothing");
    post(sender, &frame(&route, 100, 1));
    assert_eq!(fetch(receiver), frame(&route, 100, 1));
    assert!(receiver.receive(now()).is_none());
}

/// Nobody reads: what does not fit is counted, what fits is there, and then it goes on.
fn overrun(kind: Kind) {
    let Some((least, most)) = kind.receive_slots() else {
        return;
    };
    let mut ends = kind.ends(MTU);
    let (sender, receiver) = ends.both();
    let route = route(
        Family::V4,
        1,
        sender.capabilities(),
        receiver.capabilities(),
    );
    for round in 1..4 {
        assert!(receiver.receive(now()).is_none());
        let sent = 3000;
        for seed in 0..sent {
            post(sender, &frame(&route, 200, seed));
        }
        let mut received = 0;
        while let Some(bytes) = await_frame(receiver, 20) {
            // The first ones are those that are kept.
            assert_eq!(bytes, frame(&route, 200, received));
            received += 1;
        }
        assert!((least..=most).contains(&received), "{received} of {least}");
        let counters = receiver.counters();
        assert_eq!(counters.overruns, round * (sent - received), "{counters:?}");
        for seed in 0..500 {
            post(sender, &frame(&route, 300, seed));
            assert_eq!(fetch(receiver), frame(&route, 300, seed));
        }
    }
}

/// A length that cannot be is refused, and does no harm.
fn lengths(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let (sender, receiver) = ends.both();
    let route = route(
        Family::V4,
        1,
        sender.capabilities(),
        receiver.capabilities(),
    );
    let wrong = [0, 1, 13, ETHERNET + MTU + 1, 1 << 16, usize::MAX];
    for length in wrong {
        let _ = sender.slot().expect("room");
        sender.commit(length);
        sender.flush(now()).expect("nothing");
        post(sender, &frame(&route, 80, length as u64));
        assert_eq!(fetch(receiver), frame(&route, 80, length as u64));
    }
    assert_eq!(sender.counters().refused, wrong.len() as u64);
    // A frame that says that it is longer than it is arrives as it is; its reader finds out.
    let mut lying = frame(&route, 200, 1);
    lying.truncate(90);
    post(sender, &lying);
    if let Some(received) = await_frame(receiver, 100) {
        assert_eq!(received, lying);
        assert!(parse(&received, Offload::default()).is_err());
    }
    post(sender, &frame(&route, 80, 1));
    assert_eq!(fetch(receiver), frame(&route, 80, 1));
}

/// Two threads, each sending and receiving as fast as it can: in order, each frame once, or lost and
/// counted.
fn both_ways_at_once(kind: Kind) {
    let frames = kind.frames();
    let mut ends = kind.ends(MTU);
    let (one, other) = ends.both();
    let there = route(Family::V4, 1, one.capabilities(), other.capabilities());
    let back = route(Family::V4, 2, other.capabilities(), one.capabilities());
    let length = |seed: u64| 64 + (seed as usize * 7) % 1400;
    let through = AtomicUsize::new(0);
    let run = |port: &mut AnyPort, out, own| {
        let (mut sent, mut received, mut expected) = (0, 0, 0);
        let mut is_through = false;
        let mut quiet = Instant::now();
        loop {
            // The end that is ahead waits for the other, however slow that is.
            if through.load(Ordering::Relaxed) < 2 {
                quiet = Instant::now();
            }
            let (is_late, before) = (quiet.elapsed() > Duration::from_millis(300), received);
            for _ in 0..32 {
                if sent == frames {
                    break;
                }
                let Some(slot) = port.slot() else { break };
                write(slot, out, length(sent), sent);
                port.commit(length(sent));
                sent += 1;
            }
            port.flush(now()).expect("to send");
            if sent == frames && !is_through {
                is_through = true;
                through.fetch_add(1, Ordering::Relaxed);
            }
            while let Some(arrived) = port.receive(now()) {
                let is_it = |seed: &u64| {
                    arrived.bytes.len() == length(*seed)
                        && arrived.bytes == frame(own, length(*seed), *seed)
                };
                let found = (expected..frames).find(is_it);
                expected = found.expect("a frame that was sent, in order") + 1;
                received += 1;
                quiet = Instant::now();
            }
            // This thread may not have run for so long: what came meanwhile counts.
            if is_late && received == before {
                return received;
            }
            thread::yield_now();
        }
    };
    let counts = thread::scope(|scope| {
        let one = scope.spawn(|| run(one, &there, &back));
        let other = scope.spawn(|| run(other, &back, &there));
        [one.join().expect("one"), other.join().expect("other")]
    });
    account(kind, &mut ends, counts);
}

/// Of all frames that a test has sent, those that did not arrive were counted by somebody.
fn account(kind: Kind, ends: &mut Ends, counts: [u64; 2]) {
    let frames = kind.frames();
    // With the program in the driver, veth has a queue of its own before it, which can be full; and a socket is not
    // told that the one before the kernel's protocols is.
    let has_queue = [Kind::XdpNative, Kind::Udp].contains(&kind);
    let world = ends.world.as_ref().filter(|_| has_queue);
    // What leaves in one call the kernel may drop and count as one: two frames of these lengths.
    let in_one = if kind == Kind::Udp { 2 } else { 1 };
    let mut lost = 0;
    for (port, received) in ends.ports.iter_mut().zip(counts) {
        let counters = port.counters();
        assert_eq!(counters.frames_sent, frames);
        assert_eq!(counters.frames_received, received);
        let missing = frames - received;
        assert!(missing >= counters.overruns);
        lost += missing.saturating_sub(in_one * counters.overruns);
    }
    let dropped = world.map_or(0, |world| world.hosts.iter().map(Namespace::dropped).sum());
    let dropped = in_one * dropped;
    // Frames of the kernel's own can be among them.
    assert!(lost <= dropped, "{lost} lost, {dropped} dropped by veth");
}

fn sleep_on(wake: BorrowedFd<'_>, milliseconds: i64) -> PollFlags {
    let time = Timespec {
        tv_sec: milliseconds / 1000,
        tv_nsec: milliseconds % 1000 * 1_000_000,
    };
    let mut fds = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
    poll(&mut fds, Some(&time)).expect("poll");
    fds[0].revents()
}

/// A sleeper is woken by a frame, by nothing else, and not again after taking it.
fn wake_up(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let (sender, receiver) = ends.both();
    let route = route(
        Family::V4,
        1,
        sender.capabilities(),
        receiver.capabilities(),
    );
    if kind == Kind::Sim {
        assert!(receiver.wake().is_none());
        return;
    }
    for seed in 0..20 {
        assert!(receiver.receive(now()).is_none());
        assert!(receiver.lie_down());
        let wake = receiver.wake().expect("a descriptor");
        assert_eq!(sleep_on(wake, 5), PollFlags::empty());
        let late = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(10));
                post(sender, &frame(&route, 64, seed));
            });
            let start = Instant::now();
            assert_eq!(sleep_on(wake, 5000), PollFlags::IN);
            start.elapsed()
        });
        assert!(late < Duration::from_secs(2), "{late:?}");
        assert_eq!(fetch(receiver), frame(&route, 64, seed));
    }
}

fn counted(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let (sender, receiver) = ends.both();
    let route = route(
        Family::V4,
        1,
        sender.capabilities(),
        receiver.capabilities(),
    );
    for seed in 0..100 {
        post(sender, &frame(&route, 100, seed));
        assert_eq!(fetch(receiver), frame(&route, 100, seed));
    }
    let (sent, received) = (sender.counters(), receiver.counters());
    assert_eq!((sent.frames_sent, sent.bytes_sent), (100, 10_000));
    assert_eq!(
        (received.frames_received, received.bytes_received),
        (100, 10_000)
    );
    assert_eq!((sent.refused, received.overruns), (0, 0));
    assert_eq!((received.truncated, received.foreign), (0, 0));
}
