//! A world in which a scenario happens. It looks at every byte, at every step.

use std::collections::BTreeMap;
use std::time::Duration;

use netstack::link::{Event, Id, Terms};
use netstack::time::Instant;

use super::either::Either;
use super::host::{Host, Outcome, Ring, connect_on};
use super::net::{Cable, Conditions};
use super::pair::Pair;
use super::scenario::{Act, Scenario, Side, tune};

/// After the network works again all bytes arrive within this, and what the cable takes for them.
pub const BOUND: Duration = Duration::from_secs(3);

/// A connection: its two rings, also when the host of one is gone.
struct Both {
    ids: [Id; 2],
    /// Rings of hosts that have restarted since.
    graves: [Option<Ring>; 2],
    next_read: [Instant; 2],
    /// A program has ended it by force.
    disturbed: bool,
}

pub struct World {
    pub pair: Pair<Either>,
    scenario: Scenario,
    begin: Instant,
    connections: BTreeMap<u64, Both>,
    restarts: u64,
}

impl World {
    pub fn new(scenario: &Scenario) -> World {
        let tune = tune(scenario);
        let window = scenario.window();
        let pair = Pair::tuned(scenario.conditions.clone(), scenario.seed, window, tune);
        World {
            begin: pair.now,
            pair,
            scenario: scenario.clone(),
            connections: BTreeMap::new(),
            restarts: 0,
        }
    }

    /// All of it; the packets that were sent.
    pub fn play(mut self) -> u64 {
        for (at, act) in self.scenario.acts.clone() {
            self.run_until(self.begin + Duration::from_micros(at));
            self.act(&act);
        }
        self.heal();
        self.deliver_all();
        self.end_all();
        self.pair.packets
    }

    fn host(&mut self, side: Side) -> &mut Host<Either> {
        match side {
            Side::A => &mut self.pair.a,
            Side::B => &mut self.pair.b,
        }
    }

    fn ring(&mut self, name: u64, side: Side) -> &mut Ring {
        let both = self.connections.get_mut(&name).expect("a connection");
        let number = side as usize;
        if both.graves[number].is_some() {
            return both.graves[number].as_mut().expect("a grave");
        }
        let host = match side {
            Side::A => &mut self.pair.a,
            Side::B => &mut self.pair.b,
        };
        host.rings.get(both.ids[number])
    }

    /// The id, if the host still has it.
    fn live(&mut self, name: u64, side: Side) -> Option<Id> {
        let both = self.connections.get(&name)?;
        let (id, buried) = (
            both.ids[side as usize],
            both.graves[side as usize].is_some(),
        );
        (!buried && self.ring(name, side).outcome.is_none()).then_some(id)
    }

    fn run_until(&mut self, limit: Instant) {
        let (mut last, mut steps) = (self.pair.now, 0);
        while self.pair.now < limit {
            steps = if self.pair.now > last { 0 } else { steps + 1 };
            last = self.pair.now;
            assert!(steps < 1000, "time stands still: {:?}", self.pair.a.link);
            let wake = self
                .next_read()
                .filter(|&at| at > self.pair.now && at < limit);
            let until = wake.unwrap_or(limit);
            if !self.pair.step(until) {
                self.pair.now = until;
            }
            self.read_all();
            self.check();
        }
    }

    fn next_read(&mut self) -> Option<Instant> {
        let both = self.connections.values();
        both.flat_map(|both| both.next_read)
            .filter(|&at| at > self.pair.now)
            .min()
    }

    fn read_all(&mut self) {
        let (most, pause) = self.scenario.reader;
        let Pair { a, b, now, .. } = &mut self.pair;
        for both in self.connections.values_mut() {
            for (side, host) in [&mut *a, &mut *b].into_iter().enumerate() {
                let is_due = both.graves[side].is_none() && both.next_read[side] <= *now;
                if is_due && host.read(*now, both.ids[side], most) > 0 {
                    both.next_read[side] = *now + pause;
                }
            }
        }
    }

    /// [C6] [C11] Nobody counts on bytes, or an end, that are not there.
    fn check(&mut self) {
        let Pair { a, b, .. } = &mut self.pair;
        for (name, both) in &mut self.connections {
            let [grave_a, grave_b] = &mut both.graves;
            let a = grave_a.as_mut().unwrap_or_else(|| a.rings.get(both.ids[0]));
            let b = grave_b.as_mut().unwrap_or_else(|| b.rings.get(both.ids[1]));
            assert!(
                a.released <= b.tail && b.released <= a.tail,
                "{name}: {a:?} {b:?}"
            );
            assert!(
                (b.ended || !a.end_acked) && (a.ended || !b.end_acked),
                "{name}: {a:?} {b:?}"
            );
        }
        if self.scenario.deadly {
            return;
        }
        // [R7] [R8]
        for host in [&self.pair.a, &self.pair.b] {
            let died = matches!(host.events.last(), Some(Event::Dead(_)));
            assert!(!died, "{:?}", host.events);
        }
    }

    fn act(&mut self, act: &Act) {
        let now = self.pair.now;
        match *act {
            Act::Open {
                name,
                opener,
                ring,
                from,
            } => self.open(name, opener, ring, from),
            Act::Write { name, side, bytes } => {
                if let Some(id) = self.live(name, side) {
                    self.host(side).write(now, id, bytes);
                }
            }
            Act::Close { name, side } => {
                if let Some(id) = self.live(name, side) {
                    self.host(side).link.close(now, id);
                }
            }
            Act::Reset { name, side } => {
                if let Some(id) = self.live(name, side) {
                    self.connections.get_mut(&name).expect("it").disturbed = true;
                    self.host(side).reset(now, id, 20);
                }
            }
            Act::Freeze { name, side } => {
                if self.live(name, side).is_some() {
                    let both = self.connections.get_mut(&name).expect("it");
                    both.disturbed = true;
                    self.ring(name, side).frozen = true;
                }
            }
            Act::Cut { there, back } => (self.pair.to_b.cut, self.pair.to_a.cut) = (there, back),
            Act::CutWays { there, back } => {
                (self.pair.to_b.cut_ways, self.pair.to_a.cut_ways) = (there, back);
            }
            Act::Mtu(mtu) => self.each_cable(|cable| cable.conditions.mtu = mtu),
            Act::Weather { loss, burst } => self.each_cable(|cable| {
                (cable.conditions.loss, cable.conditions.burst) = (loss, burst);
            }),
            Act::Restart(side) => self.restart(side),
            Act::Bye(side) => self.host(side).link.bye(),
        }
    }

    fn each_cable(&mut self, change: impl Fn(&mut Cable)) {
        change(&mut self.pair.to_a);
        change(&mut self.pair.to_b);
    }

    fn open(&mut self, name: u64, opener: Side, ring: u64, from: u64) {
        let now = self.pair.now;
        let Pair { a, b, .. } = &mut self.pair;
        let terms = Terms {
            name,
            send_from: from,
            receive_from: from / 2,
            ring,
        };
        let ids = match opener {
            Side::A => {
                let (a, b) = connect_on(a, b, now, &terms);
                [a, b]
            }
            Side::B => {
                let (b, a) = connect_on(b, a, now, &terms);
                [a, b]
            }
        };
        let both = Both {
            ids,
            graves: [None, None],
            next_read: [now; 2],
            disturbed: false,
        };
        self.connections.insert(name, both);
    }

    fn restart(&mut self, side: Side) {
        self.restarts += 1;
        let (me, peer) = match side {
            Side::A => (1, 2),
            Side::B => (2, 1),
        };
        let seed = self.scenario.seed + 1000 * self.restarts;
        let window = self.scenario.window();
        let fresh = Host::new(me, peer, seed, window, tune(&self.scenario));
        let mut old = std::mem::replace(self.host(side), fresh);
        for both in self.connections.values_mut() {
            if both.graves[side as usize].is_some() {
                continue;
            }
            if let Some(ring) = old.rings.0.remove(&both.ids[side as usize]) {
                both.graves[side as usize] = Some(ring);
            }
        }
    }

    /// The network is a good one from now on, and programs read.
    fn heal(&mut self) {
        (self.pair.to_a.cut, self.pair.to_b.cut) = (false, false);
        self.each_cable(|cable| {
            let good = Conditions {
                mtu: cable.conditions.mtu,
                rate: cable.conditions.rate,
                latency: cable.conditions.latency,
                ..Conditions::default()
            };
            cable.conditions = good;
        });
        self.scenario.reader = (u64::MAX, Duration::ZERO);
        for both in self.connections.values_mut() {
            both.next_read = [self.pair.now; 2];
        }
        self.read_all();
    }

    /// Every byte of a connection that nobody has disturbed arrives in time.
    fn deliver_all(&mut self) {
        let rate = self.scenario.conditions.rate;
        let names: Vec<u64> = self.connections.keys().copied().collect();
        let mut waiting = 0;
        for &name in &names {
            for side in [Side::A, Side::B] {
                let ring = self.ring(name, side);
                // A ring of few bytes takes a round trip for each filling.
                waiting += (ring.written - ring.released) * (1 + 1500 / ring.size().min(1500));
            }
        }
        let trips =
            self.scenario.conditions.latency * (waiting / self.scenario.window.min(1000)) as u32;
        // [R8] A path that is cut stays so: both ends have to notice.
        let leaving = match self.scenario.ways {
            1 => Duration::ZERO,
            _ => self.scenario.patience * 3 / 2,
        };
        let time =
            BOUND + leaving + Duration::from_nanos(waiting * 8_000_000_000 / rate * 4) + trips * 4;
        self.run_until(self.pair.now + time);
        for name in names {
            if self.connections[&name].disturbed {
                continue;
            }
            for (side, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
                let outcome = self.ring(name, side).outcome;
                if self.scenario.deadly && (outcome != Some(Outcome::Closed)) {
                    continue;
                }
                assert!(
                    matches!(outcome, None | Some(Outcome::Closed)),
                    "{name} {side:?} {outcome:?}"
                );
                let written = self.ring(name, other).written;
                // Nobody reads on where the host has restarted.
                let buried = self.connections[&name].graves[side as usize].is_some();
                let ring = self.ring(name, side);
                let read = if buried { ring.tail } else { ring.read };
                assert_eq!(read, written, "{name} {side:?} has not all bytes");
            }
        }
    }

    /// Everything ends, and then nothing is left. [C9] [R9]
    fn end_all(&mut self) {
        let names: Vec<u64> = self.connections.keys().copied().collect();
        for &name in &names {
            let disturbed = self.connections[&name].disturbed;
            for side in [Side::A, Side::B] {
                let now = self.pair.now;
                match self.live(name, side) {
                    Some(id) if disturbed => self.host(side).reset(now, id, 21),
                    Some(id) => self.host(side).link.close(now, id),
                    None => {}
                }
            }
        }
        self.run_until(self.pair.now + self.scenario.patience * 2 + Duration::from_secs(12));
        for &name in &names {
            for side in [Side::A, Side::B] {
                let Some(id) = self.live(name, side) else {
                    continue;
                };
                // The other end is gone; this one may never have been opened.
                assert!(self.scenario.deadly, "{name} {side:?} has not ended");
                let now = self.pair.now;
                self.host(side).reset(now, id, 22);
            }
        }
        self.run_until(self.pair.now + self.scenario.patience * 2 + Duration::from_secs(12));
        for host in [&self.pair.a, &self.pair.b] {
            assert_eq!(host.link.connections(), 0, "{:?}", host.link);
            assert_eq!(host.link.deadline(), None, "{:?}", host.link);
            for path in (0..8).filter_map(|number| host.link.path(number)) {
                assert!(path.in_flight == 0 || path.is_left);
            }
        }
    }
}
