//! Hosts on the left, hosts on the right, and one cable each way that they all share. Each host has a
//! port of its own; what queues, queues before the shared cable.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use netstack::time::Instant;
use netstack::wire::Addresses;
use netstack::wire::frame::Ecn;

use crate::net::{Cable, Conditions, Datagram, Random};

/// A packet that a host sends; its bytes are in the buffer that it was given.
pub struct Leaving {
    pub length: usize,
    pub ecn: Ecn,
    /// Bytes around it on the cable.
    pub overhead: u64,
    pub addresses: Addresses,
}

/// A host, whatever it speaks.
pub trait Host {
    fn receive(&mut self, now: Instant, datagram: &Datagram);
    fn transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Leaving>;
    /// When `transmit` has to be called even if nothing arrives.
    fn deadline(&self) -> Option<Instant>;
    /// Bytes that have arrived for its programs.
    fn delivered(&self) -> u64;
    /// How long each request took.
    fn latencies(&self) -> &[Duration] {
        &[]
    }
}

struct Seat {
    host: Box<dyn Host>,
    port_free: Instant,
    /// When to let it transmit next.
    next: Option<Instant>,
}

impl Seat {
    /// After a packet that has just left.
    fn hesitate(&mut self, now: Instant, random: &mut Random) {
        if self.port_free > now && self.next == Some(self.port_free) {
            let takes = (self.port_free - now).as_nanos() as u64;
            self.port_free = self.port_free + Duration::from_nanos(random.below(takes / 8 + 1));
            self.next = Some(self.port_free);
        }
    }
}

/// The last byte of a host's address.
pub fn number(right: bool, index: usize) -> u8 {
    index as u8 + if right { 101 } else { 1 }
}

pub fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 0, 0, host).into(), port)
}

pub struct Dumbbell {
    pub now: Instant,
    seats: [Vec<Seat>; 2],
    cables: [Cable; 2],
    /// Bits per second of each host's port.
    port: u64,
    /// How long hosts hesitate.
    hesitation: Option<Random>,
}

impl Dumbbell {
    pub fn new(conditions: &Conditions, port: u64, seed: u64) -> Dumbbell {
        Dumbbell {
            port,
            hesitation: None,
            now: Instant::from_nanos(1_000_000_000),
            seats: [Vec::new(), Vec::new()],
            cables: [seed, seed + 1].map(|seed| Cable::new(conditions.clone(), seed)),
        }
    }

    /// Hosts wait up to an eighth of a packet's time, at random, before they send the next. Without it
    /// a port that is exactly as fast as the shared cable takes every place that becomes free in a full
    /// queue, always before the others.
    pub fn hesitate(&mut self, seed: u64) {
        self.hesitation = Some(Random::new(seed));
    }

    /// Two hosts that talk to each other.
    pub fn add(&mut self, left: Box<dyn Host>, right: Box<dyn Host>) {
        for (seats, host) in self.seats.iter_mut().zip([left, right]) {
            seats.push(Seat {
                host,
                port_free: Instant::ZERO,
                next: Some(self.now),
            });
        }
    }

    pub fn left(&self, index: usize) -> &dyn Host {
        &*self.seats[0][index].host
    }

    pub fn right(&self, index: usize) -> &dyn Host {
        &*self.seats[1][index].host
    }

    fn next(&self) -> Option<Instant> {
        let seats = self.seats.iter().flatten().filter_map(|seat| seat.next);
        seats
            .chain(self.cables.iter().filter_map(Cable::next))
            .min()
    }

    /// Until the next thing happens; `false` if nothing does before `limit`.
    fn step(&mut self, limit: Instant) -> bool {
        let Some(next) = self.next().filter(|&next| next <= limit) else {
            self.now = limit;
            return false;
        };
        self.now = self.now.max(next);
        for side in 0..2 {
            while let Some(datagram) = self.cables[side].take(self.now) {
                let index = seat_of(&datagram);
                let seat = &mut self.seats[1 - side][index];
                seat.host.receive(self.now, &datagram);
                seat.next = Some(seat.port_free.max(self.now));
            }
        }
        for side in 0..2 {
            for seat in &mut self.seats[side] {
                if seat.next.is_some_and(|next| next <= self.now) {
                    transmit(self.now, seat, self.port, &mut self.cables[side]);
                    if let Some(random) = &mut self.hesitation {
                        seat.hesitate(self.now, random);
                    }
                }
            }
        }
        true
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// At most so long.
    pub fn run_until(&mut self, time: Duration, mut done: impl FnMut(&Dumbbell) -> bool) {
        let limit = self.now + time;
        while self.step(limit) && !done(self) {}
    }
}

fn seat_of(datagram: &Datagram) -> usize {
    let IpAddr::V4(to) = datagram.addresses().destination.ip() else {
        panic!("only IPv4 here");
    };
    let number = to.octets()[3];
    usize::from(if number > 100 {
        number - 101
    } else {
        number - 1
    })
}

/// Lets a host send one packet, if its port is free.
fn transmit(now: Instant, seat: &mut Seat, port: u64, cable: &mut Cable) {
    let mut out = [0; 2048];
    let Some(leaving) = seat.host.transmit(now, &mut out) else {
        let deadline = seat.host.deadline();
        seat.next = deadline.map(|at| at.max(seat.port_free).max(now + Duration::from_nanos(1)));
        return;
    };
    let bits = (leaving.length as u64 + leaving.overhead) * 8;
    let takes = bits * 1_000_000_000 / port;
    seat.port_free = now + Duration::from_nanos(takes);
    seat.next = Some(seat.port_free);
    let payload = &out[..leaving.length];
    cable.send_framed(
        now,
        leaving.addresses,
        leaving.ecn,
        payload,
        leaving.overhead,
    );
}
