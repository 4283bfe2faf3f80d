//! Two hosts and the time.

use std::time::Duration;

use firmware::{EndpointId, PeerId};
use netstack::phy::{Conditions, Sim};
use netstack::time::Instant;

use crate::host::Host;
use crate::program::{Program, Shm};

pub struct World {
    pub now: Instant,
    pub a: Host,
    pub b: Host,
}

/// Where the streams of a test begin: both on the kernel before.
pub const FROM_A: u64 = 1000;
pub const FROM_B: u64 = 77;

impl World {
    pub fn new(conditions: &Conditions, seed: u64) -> World {
        let (port_a, port_b) = Sim::pair(conditions, 1500, seed);
        let mut world = World {
            now: Instant::from_nanos(1),
            a: Host::new(1, port_a),
            b: Host::new(2, port_b),
        };
        world.a.meet(2);
        world.b.meet(1);
        world
    }

    /// A connection that A opens; the programs at its two ends.
    pub fn connect(&mut self, name: u64, level: u8) -> (EndpointId, EndpointId) {
        let peers = (self.a.peer(), self.b.peer());
        connect(self.now, (&mut self.a, &mut self.b), peers, name, level)
    }

    /// Runs until `done`, or panics when nobody has anything to do any more, or after `limit`.
    pub fn run_until(&mut self, limit: Duration, done: impl Fn(&World) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            self.step();
            assert!(self.now < end, "not done after {limit:?}");
        }
    }

    /// Runs both hosts, and the clock to when one of them has something to do again.
    pub fn step(&mut self) {
        self.a.run(self.now);
        self.b.run(self.now);
        let next = [self.a.next(self.now), self.b.next(self.now)];
        let next = next
            .into_iter()
            .flatten()
            .min()
            .expect("somebody is waited for");
        // Time passes also for a busy program.
        self.now = next.max(self.now + Duration::from_nanos(100));
    }
}

/// A connection that the first opens; `peers` are what each calls the other.
pub fn connect(
    now: Instant,
    (a, b): (&mut Host, &mut Host),
    peers: (PeerId, PeerId),
    name: u64,
    level: u8,
) -> (EndpointId, EndpointId) {
    let ours = Shm::new(level, FROM_A, FROM_B);
    let theirs = Shm::new(level, FROM_B, FROM_A);
    let expected = b.engine.expect(peers.1, name, theirs.clone());
    let there = expected.expect("room");
    b.programs
        .insert(there, Program::new(theirs, FROM_B, FROM_A));
    let opened = a.engine.open(now, peers.0, name, ours.clone());
    let here = opened.expect("room");
    a.programs.insert(here, Program::new(ours, FROM_A, FROM_B));
    a.prod();
    b.prod();
    (here, there)
}
