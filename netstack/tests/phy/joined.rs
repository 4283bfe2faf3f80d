//! Frames that leave together: as one frame, where a port can. Each arrives as it would have alone.

use netstack::phy::{Port, Reserved};
use netstack::wire::frame::{ETHERNET, Ecn, Offload, overhead, parse};
use netstack::wire::{HEADER, Header, Kind as PacketKind, VERSION};

use crate::frames::{Family, PORT, Route, await_frame, commit, frame_for, now, route};
use crate::namespace::World;
use crate::on_every_port;
use crate::rig::{AnyPort, Ends, Kind};

on_every_port!(
    one_size,
    all_sizes,
    several_ways,
    taken_back,
    jumbo,
    wide_load
);

const MTU: usize = 1500;

/// Both ends read the same out of them.
fn same(received: &[u8], sent: &[u8]) {
    let offload = Offload {
        udp_received: true,
        ..Offload::default()
    };
    let read = |bytes| parse(bytes, offload).expect("a datagram");
    let (received, sent) = (read(received), read(sent));
    assert_eq!(received.addresses, sent.addresses);
    assert_eq!(received.ecn, sent.ecn);
    assert!(received.payload == sent.payload);
}

/// Sends these, as many in one go as the port keeps; all arrive, in order, and nothing else.
fn exchange(kind: Kind, sender: &mut AnyPort, receiver: &mut AnyPort, frames: &[Vec<u8>]) {
    let mut left = frames;
    while !left.is_empty() {
        let mut bytes = 0;
        let fits = |frame: &&Vec<u8>| {
            bytes += frame.len();
            bytes <= kind.keeps()
        };
        let count = left.iter().take_while(fits).count();
        let (now, later) = left.split_at(count.max(1));
        exchange_at_once(sender, receiver, now);
        left = later;
    }
}

fn exchange_at_once(sender: &mut AnyPort, receiver: &mut AnyPort, frames: &[Vec<u8>]) {
    for bytes in frames {
        commit(sender, bytes);
    }
    sender.flush(now()).expect("to send");
    for (number, sent) in frames.iter().enumerate() {
        let received = await_frame(receiver, 2000);
        let received = received.unwrap_or_else(|| panic!("{number} of {}", frames.len()));
        assert_eq!(received.len(), sent.len(), "{number}");
        // No hardware was on the way, so that every checksum is as it was sent.
        parse(&received, Offload::default()).expect("a datagram");
        same(&received, sent);
    }
    assert!(receiver.receive(now()).is_none());
}

fn between(ends: &mut Ends, family: Family) -> (&mut AnyPort, &mut AnyPort, Route, Offload) {
    let (sender, receiver) = ends.both();
    let (here, there) = (sender.capabilities(), receiver.capabilities());
    let route = route(family, 1, here, there);
    (sender, receiver, route, here.offload)
}

fn one_size(kind: Kind) {
    let mut ends = kind.ends(MTU);
    for family in [Family::V4, Family::V6] {
        let (sender, receiver, route, offload) = between(&mut ends, family);
        for length in [64, 100, 125, 126, 700, 1514] {
            for count in 1..=32 {
                let frame = |seed| frame_for(offload, &route, length, seed);
                let frames: Vec<_> = (0..count).map(frame).collect();
                exchange(kind, sender, receiver, &frames);
            }
        }
    }
}

/// Shorter and longer ones between.
fn all_sizes(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let lengths = [
        &[1514, 1514, 1514, 90, 1514, 1514][..],
        &[90, 1514, 1514, 91],
        &[100, 99, 98, 97, 98, 99, 100, 100],
        &[62, 62, 62, 63, 62],
        &[1514, 80, 80, 80, 1514],
    ];
    for family in [Family::V4, Family::V6] {
        let (sender, receiver, route, offload) = between(&mut ends, family);
        for lengths in lengths {
            let frame = |(seed, length): (u64, &usize)| frame_for(offload, &route, *length, seed);
            let frames: Vec<_> = (0..).zip(lengths).map(frame).collect();
            exchange(kind, sender, receiver, &frames);
        }
    }
}

/// Other ports, other marks, other families; and those whose checksum is complete or that have none.
fn several_ways(kind: Kind) {
    // Sockets keep no order between them, and each has one way (`sockets.rs`).
    if kind == Kind::Udp {
        return;
    }
    let mut ends = kind.ends(MTU);
    let (sender, receiver, v4, offload) = between(&mut ends, Family::V4);
    let v6 = route(
        Family::V6,
        1,
        sender.capabilities(),
        receiver.capabilities(),
    );
    let mut other = v4;
    other.addresses.source.set_port(5001);
    let marked = |route: &Route, seed| {
        let mut bytes = frame_for(offload, route, 400, seed);
        let start = overhead(&route.addresses);
        let headers = route.headers();
        let written = headers.emit(&mut bytes, Ecn::Congested, 400 - start, offload);
        assert_eq!(written, Some(400));
        bytes
    };
    let mut frames = Vec::new();
    for seed in 0..40 {
        let frame = |offload, route| frame_for(offload, route, 400, seed);
        frames.push(match seed % 8 {
            0 | 1 | 3 => frame(offload, &v4),
            2 => marked(&v4, seed),
            4 => frame(offload, &other),
            5 | 6 => frame(offload, &v6),
            _ => frame(Offload::default(), &v4),
        });
    }
    exchange(kind, sender, receiver, &frames);
}

/// What is written into a slot that is not committed reaches nobody.
fn taken_back(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let (sender, receiver, route, offload) = between(&mut ends, Family::V4);
    for seed in 0..20 {
        let frames: Vec<_> = (0..5)
            .map(|n| frame_for(offload, &route, 900, seed + n))
            .collect();
        for bytes in &frames {
            sender.slot().expect("room").fill(0xee);
            commit(sender, bytes);
            sender.slot().expect("room").fill(0xdd);
            sender.commit(5);
        }
        sender.slot().expect("room").fill(0xcc);
        sender.flush(now()).expect("to send");
        for sent in &frames {
            same(&await_frame(receiver, 2000).expect("a frame"), sent);
        }
        assert!(receiver.receive(now()).is_none());
    }
}

fn jumbo(kind: Kind) {
    let mut ends = kind.ends(9000);
    let (sender, receiver, route, offload) = between(&mut ends, Family::V4);
    for lengths in [[9014; 5], [9014, 9014, 3000, 9014, 9014], [4000; 5]] {
        let frame = |(seed, length): (u64, &usize)| frame_for(offload, &route, *length, seed);
        let frames: Vec<_> = (0..).zip(&lengths).map(frame).collect();
        exchange(kind, sender, receiver, &frames);
    }
}

/// As much as there is room for, again and again: more than fits into one frame.
fn wide_load(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let (sender, receiver, route, offload) = between(&mut ends, Family::V4);
    for round in 0..20 {
        let frame = |n: u64| frame_for(offload, &route, 1514, round * 100 + n);
        let frames: Vec<_> = (0..60).map(frame).collect();
        exchange(kind, sender, receiver, &frames);
    }
}

/// A packet of the link: XDP finds out from it how long each frame is.
fn packet(route: &Route, offload: Offload, length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = frame_for(offload, route, length, seed);
    let start = overhead(&route.addresses);
    let body = length - start - HEADER;
    let mut header = [0; HEADER];
    Header::of(PacketKind::Data).emit(&mut header, None, body);
    assert_eq!(header[0] >> 4, VERSION);
    bytes[start..start + HEADER].copy_from_slice(&header);
    bytes
}

/// A packet port at one end and XDP at the other: what the one joins the other cuts up, or refuses before.
fn mixed(there: Kind) {
    let world = World::new(MTU, 1);
    let reserve =
        |host: &crate::namespace::Namespace| host.within(|| Reserved::new(PORT).expect("the port"));
    let reserved = world.hosts.iter().map(reserve).collect();
    let ports = [Kind::Packet.open(&world, 1), there.open(&world, 2)];
    let mut ends = Ends {
        ports,
        world: Some(world),
        reserved,
    };
    for family in [Family::V4, Family::V6] {
        let (sender, receiver, route, offload) = between(&mut ends, family);
        assert!(offload.udp_sent, "veth leaves checksums to hardware");
        for count in [1, 2, 12, 30] {
            let frame = |seed| packet(&route, offload, ETHERNET + MTU, seed);
            let frames: Vec<_> = (0..count).map(frame).collect();
            exchange(Kind::Packet, sender, receiver, &frames);
        }
    }
}

#[test]
fn to_xdp() {
    mixed(Kind::Xdp);
}

/// The interface loses the feature while the sender has it in use.
#[test]
fn to_xdp_native() {
    mixed(Kind::XdpNative);
}

/// Fewer system calls than frames: they do leave as one.
#[test]
fn as_one() {
    let mut ends = Kind::Packet.ends(MTU);
    let (sender, receiver, route, offload) = between(&mut ends, Family::V4);
    let calls = sender.counters().calls;
    let frames: Vec<_> = (0..30)
        .map(|seed| frame_for(offload, &route, 1514, seed))
        .collect();
    exchange(Kind::Packet, sender, receiver, &frames);
    assert_eq!(sender.counters().calls, calls + 1);
    let (sent, received) = (sender.counters(), receiver.counters());
    assert_eq!((sent.frames_sent, received.frames_received), (30, 30));
    assert_eq!(sent.bytes_sent, received.bytes_received);
}
