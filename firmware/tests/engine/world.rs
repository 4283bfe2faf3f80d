//! Two hosts and the time.

use std::time::Duration;

use firmware::EndpointId;
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
        let (peer_a, peer_b) = (self.a.peer(), self.b.peer());
        let (ours, theirs) = (
            Shm::new(level, FROM_A, FROM_B),
            Shm::new(level, FROM_B, FROM_A),
        );
        let b = self
            .b
            .engine
            .expect(peer_b, name, theirs.clone())
            .expect("room");
        self.b
            .programs
            .insert(b, Program::new(theirs, FROM_B, FROM_A));
        let now = self.now;
        let a = self
            .a
            .engine
            .open(now, peer_a, name, ours.clone())
            .expect("room");
        self.a
            .programs
            .insert(a, Program::new(ours, FROM_A, FROM_B));
        self.a.prod();
        self.b.prod();
        (a, b)
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
        // Time passes also for who is busy.
        self.now = next.max(self.now + Duration::from_nanos(100));
    }
}
