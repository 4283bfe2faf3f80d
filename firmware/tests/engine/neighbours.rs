//! Several engines behind one address, each with ports of its own, and one that knows them all.

use std::time::Duration;

use firmware::{End, PeerId};
use netstack::link::Dropped;
use netstack::phy::{Conditions, Port, Sim};
use netstack::time::Instant;
use netstack::wire::frame::{Offload, parse};

use crate::host::{Host, PORT, Seat, config};
use crate::world::{FROM_A, FROM_B, connect};

/// Host 1 with one engine, host 2 with two of them behind one cable.
struct Row {
    now: Instant,
    hosts: [Host; 3],
    /// The other ends of their cables.
    cables: [Sim; 3],
}

const ALONE: Seat = Seat { host: 1, number: 0 };
const LEFT: Seat = Seat { host: 2, number: 0 };
const RIGHT: Seat = Seat { host: 2, number: 1 };

impl Row {
    fn new() -> Row {
        let conditions = Conditions {
            latency: Duration::from_micros(5),
            ..Conditions::default()
        };
        let pairs = [ALONE, LEFT, RIGHT].map(|seat| {
            let (near, far) = Sim::pair(&conditions, 1500, 1);
            (Host::at(seat, near), far)
        });
        let [a, b, c] = pairs;
        Row {
            now: Instant::from_nanos(1),
            hosts: [a.0, b.0, c.0],
            cables: [a.1, b.1, c.1],
        }
    }

    /// Those that the first host calls left and right, and what they call it.
    fn meet(&mut self) -> [(PeerId, PeerId); 2] {
        let [alone, left, right] = &mut self.hosts;
        [(left, LEFT), (right, RIGHT)].map(|(host, seat)| {
            let there = alone.meet_at(seat).expect("a new peer");
            (there, host.meet_at(ALONE).expect("a new peer"))
        })
    }

    fn step(&mut self) {
        for host in &mut self.hosts {
            host.run(self.now);
        }
        self.relay();
        let engines = self.hosts.iter().filter_map(|host| host.next(self.now));
        let frames = self.cables.iter().filter_map(Port::deadline);
        let next = engines.chain(frames).min().expect("somebody is waited for");
        self.now = next.max(self.now + Duration::from_nanos(100));
    }

    /// From host 2 all frames go to host 1; those to host 2 go to the engine whose port they name.
    fn relay(&mut self) {
        let [alone, left, right] = &mut self.cables;
        for from in [&mut *left, &mut *right] {
            while let Some(frame) = from.receive(self.now) {
                forward(frame.bytes, alone, self.now);
            }
        }
        while let Some(frame) = alone.receive(self.now) {
            let arrival = parse(frame.bytes, Offload::default()).expect("a whole frame");
            let to = match arrival.addresses.destination.port() - PORT {
                0 => &mut *left,
                _ => &mut *right,
            };
            forward(frame.bytes, to, self.now);
        }
    }
}

fn forward(bytes: &[u8], to: &mut Sim, now: Instant) {
    let slot = to.slot().expect("a cable without a rate");
    slot[..bytes.len()].copy_from_slice(bytes);
    to.commit(bytes.len());
    to.flush(now).expect("to send");
}

/// Two links at once, whose packets take turns: each gets its own.
#[test]
fn behind_one_address() {
    let mut row = Row::new();
    let peers = row.meet();
    assert_ne!(peers[0].0, peers[1].0);
    for (index, bytes) in [(0, 300_000), (1, 200_000)] {
        let [alone, left, right] = &mut row.hosts;
        let other = [left, right].into_iter().nth(index).expect("one of two");
        let (a, b) = connect(row.now, (&mut *alone, &mut *other), peers[index], 1, 1);
        for (host, endpoint, from) in [(alone, a, FROM_A), (other, b, FROM_B)] {
            let program = host.programs.get_mut(&endpoint).expect("just made");
            program.write_to = Some(from + bytes);
        }
    }
    let end = row.now + Duration::from_secs(2);
    while row.hosts[0].gone.len() < 2 || row.hosts[1..].iter().any(|host| host.gone.is_empty()) {
        row.step();
        assert!(row.now < end, "not done");
    }
    for host in &row.hosts {
        assert!(host.programs.values().all(|program| program.is_done()));
        assert!(host.gone.iter().all(|(_, how)| *how == End::Closed));
        assert_eq!(host.engine.counters().strangers, 0);
        for peer in host.engine.peers() {
            let link = host.engine.link(peer).expect("its link");
            assert_eq!(link.counters().dropped(Dropped::Way), 0);
        }
    }
}

/// What is one peer's cannot be another's as well, until the first is retired; each is told of once.
#[test]
fn ports_belong_to_one_peer() {
    let mut row = Row::new();
    let [(left, _), (right, _)] = row.meet();
    let alone = &mut row.hosts[0];
    let known: Vec<PeerId> = alone.engine.peers().collect();
    assert_eq!(known, [left, right]);
    assert_eq!(alone.meet_at(LEFT), None);
    assert_eq!(alone.meet_at(RIGHT), None);
    alone.engine.retire(left);
    assert_eq!(alone.meet_at(RIGHT), None);
    let again = alone.meet_at(LEFT).expect("a free place");
    let known: Vec<PeerId> = alone.engine.peers().collect();
    assert_eq!(known, [again, right]);
}

/// One port in common is enough.
#[test]
fn overlapping_ports() {
    let mut row = Row::new();
    let alone = &mut row.hosts[0];
    alone.meet_at(LEFT).expect("a new peer");
    let mut mixed = config(ALONE, RIGHT, 2, 1);
    mixed.ways[1] = config(ALONE, LEFT, 2, 1).ways[1];
    assert_eq!(alone.add(mixed, RIGHT), None);
    assert_eq!(alone.engine.peers().count(), 1);
    assert!(alone.meet_at(RIGHT).is_some());
}
