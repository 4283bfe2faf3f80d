//! Many pairs of hosts over one switch: each host has a port of its own, all share one cable there and
//! one back. The queue before the shared cable is what they compete for.

use std::time::Duration;

use netstack::link::window::Window;
use netstack::link::{Config, Id};
use netstack::time::Instant;

use super::host::{Host, connect};
use super::net::{Cable, Conditions};

/// A host and its way to the switch.
pub struct Station<W> {
    pub host: Host<W>,
    pub port: Cable,
}

impl<W: Window + Clone> Station<W> {
    /// When it, or its port, has something to do.
    fn next(&self, now: Instant) -> Option<Instant> {
        let free = self.port.free_at();
        // What is due while the port is busy goes as soon as it is free.
        let due = self.host.link.deadline().map(|due| due.max(free));
        let free = Some(free).filter(|&at| at > now);
        [self.port.next(), due, free].into_iter().flatten().min()
    }
}

pub struct Cluster<W> {
    pub now: Instant,
    /// The host of pair `n` that opens; its address ends in 1 + n.
    pub openers: Vec<Station<W>>,
    /// The other one; its address ends in 101 + n.
    pub others: Vec<Station<W>>,
    /// Shared, from the openers to the others.
    pub there: Cable,
    pub back: Cable,
}

impl<W: Window + Clone> Cluster<W> {
    /// `port` is what a host's own port is like, `shared` the cables that all compete for.
    pub fn new(
        pairs: u8,
        port: &Conditions,
        shared: &Conditions,
        seed: u64,
        window: W,
        tune: impl Fn(&mut Config),
    ) -> Cluster<W> {
        assert!(pairs <= 100);
        let station = |me: u8, peer: u8| {
            let seed = seed.wrapping_mul(1000) + u64::from(me);
            Station {
                host: Host::new(me, peer, seed, window.clone(), &tune),
                port: Cable::new(port.clone(), seed),
            }
        };
        Cluster {
            now: Instant::from_nanos(1_000_000_000),
            openers: (0..pairs).map(|n| station(1 + n, 101 + n)).collect(),
            others: (0..pairs).map(|n| station(101 + n, 1 + n)).collect(),
            there: Cable::new(shared.clone(), seed + 1),
            back: Cable::new(shared.clone(), seed + 2),
        }
    }

    /// A connection of one pair.
    pub fn connect(&mut self, pair: usize, name: u64, ring: u64) -> (Id, Id) {
        let (opener, other) = (&mut self.openers[pair].host, &mut self.others[pair].host);
        connect(opener, other, self.now, name, ring)
    }

    /// Lets all send what they can, and gives the time of the next thing to happen.
    fn settle(&mut self) -> Option<Instant> {
        let mut next = self.there.next().into_iter().chain(self.back.next()).min();
        for station in self.openers.iter_mut().chain(&mut self.others) {
            station.host.transmit(self.now, &mut station.port);
            next = next.into_iter().chain(station.next(self.now)).min();
        }
        next
    }

    /// Until the next thing happens; `false` if nothing ever will, or not before `limit`.
    pub fn step(&mut self, limit: Instant) -> bool {
        let Some(next) = self.settle() else {
            return false;
        };
        if next > limit {
            self.now = limit;
            return false;
        }
        self.now = self.now.max(next);
        switch(
            self.now,
            &mut self.openers,
            &mut self.there,
            &mut self.others,
        );
        switch(
            self.now,
            &mut self.others,
            &mut self.back,
            &mut self.openers,
        );
        true
    }

    /// Runs until nothing happens any more, or the time is over.
    pub fn run(&mut self, time: Duration, mut each: impl FnMut(&mut Cluster<W>)) {
        let limit = self.now + time;
        while self.step(limit) {
            each(self);
        }
    }
}

/// Out of the ports into the shared cable, and out of that to the hosts.
fn switch<W: Window + Clone>(
    now: Instant,
    from: &mut [Station<W>],
    shared: &mut Cable,
    to: &mut [Station<W>],
) {
    for station in from {
        while let Some(datagram) = station.port.take(now) {
            shared.send(now, datagram.addresses(), datagram.ecn(), &datagram.payload);
        }
    }
    while let Some(datagram) = shared.take(now) {
        let destination = datagram.addresses().destination.ip();
        let whose = |station: &&mut Station<W>| station.host.address() == destination;
        if let Some(station) = to.iter_mut().find(whose) {
            station.host.receive(now, &datagram);
        }
    }
}

/// Ten pairs get through one cable, all of it is used, and every byte arrives.
#[test]
fn ten_pairs_share_a_cable() {
    use netstack::link::window::Fixed;

    const BYTES: u64 = 1 << 20;
    let (port, shared) = (
        Conditions::default(),
        Conditions {
            queue: 1 << 22,
            ..Conditions::default()
        },
    );
    let mut cluster = Cluster::new(10, &port, &shared, 7, Fixed::new(1 << 17), |_| {});
    let ids: Vec<_> = (0..10)
        .map(|pair| cluster.connect(pair, 5, 1 << 18))
        .collect();
    for (station, (id, _)) in cluster.openers.iter_mut().zip(&ids) {
        station.host.write(cluster.now, *id, BYTES);
    }
    let begin = cluster.now;
    cluster.run(Duration::from_secs(1), |cluster| {
        for (station, (_, id)) in cluster.others.iter_mut().zip(&ids) {
            station.host.read(cluster.now, *id, u64::MAX);
        }
    });
    for (station, (_, id)) in cluster.others.iter_mut().zip(&ids) {
        assert_eq!(station.host.rings.get(*id).read, 1000 + BYTES);
    }
    assert_eq!(cluster.there.dropped, 0);
    let took = cluster.now - begin;
    let least = Duration::from_nanos(10 * BYTES * 8 / 10);
    assert!(took > least && took < least * 5 / 4, "{took:?} {least:?}");
}
