//! Two hosts, two cables, and a clock that jumps to whatever happens next.

use std::time::Duration;

use netstack::link::window::Window;
use netstack::link::{Config, Id};
use netstack::time::Instant;

use super::host::{Host, connect};
use super::net::{Cable, Conditions};

pub struct Pair<W> {
    pub now: Instant,
    pub a: Host<W>,
    pub b: Host<W>,
    pub to_b: Cable,
    pub to_a: Cable,
    pub packets: u64,
}

impl<W: Window + Clone> Pair<W> {
    pub fn new(conditions: Conditions, seed: u64, window: W) -> Pair<W> {
        Pair::tuned(conditions, seed, window, |_| {})
    }

    pub fn tuned(
        conditions: Conditions,
        seed: u64,
        window: W,
        tune: impl Fn(&mut Config),
    ) -> Pair<W> {
        Pair {
            now: Instant::from_nanos(1_000_000_000),
            a: Host::new(1, 2, seed, window.clone(), &tune),
            b: Host::new(2, 1, seed + 1, window, &tune),
            to_b: Cable::new(conditions.clone(), seed + 2),
            to_a: Cable::new(conditions, seed + 3),
            packets: 0,
        }
    }

    /// A connection that `a` opens and `b` expects.
    pub fn connect(&mut self, name: u64, ring: u64) -> (Id, Id) {
        connect(&mut self.a, &mut self.b, self.now, name, ring)
    }

    /// Lets both send what they can, and gives the time of the next thing to happen.
    pub fn settle(&mut self) -> Option<Instant> {
        let sent =
            self.a.transmit(self.now, &mut self.to_b) + self.b.transmit(self.now, &mut self.to_a);
        self.packets += sent as u64;
        let port = |cable: &Cable| Some(cable.free_at()).filter(|&at| at > self.now);
        // What is due while the port is busy goes as soon as it is free.
        let due = |host: &Host<W>, cable: &Cable| Some(host.link.deadline()?.max(cable.free_at()));
        [
            self.to_a.next(),
            self.to_b.next(),
            port(&self.to_a),
            port(&self.to_b),
            due(&self.a, &self.to_b),
            due(&self.b, &self.to_a),
        ]
        .into_iter()
        .flatten()
        .min()
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
        while let Some(datagram) = self.to_b.take(self.now) {
            self.b.receive(self.now, &datagram);
        }
        while let Some(datagram) = self.to_a.take(self.now) {
            self.a.receive(self.now, &datagram);
        }
        true
    }

    /// Runs until nothing happens any more, or the time is over.
    pub fn run(&mut self, time: Duration, mut each: impl FnMut(&mut Pair<W>)) {
        let limit = self.now + time;
        while self.step(limit) {
            each(self);
        }
    }
}
