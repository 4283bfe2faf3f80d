//! A network: one direction of a cable, with a queue before it, and everything that can go wrong.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use netstack::time::Instant;
use netstack::wire::Addresses;
use netstack::wire::frame::Ecn;

/// xorshift64*: the same seed gives the same network.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

/// What a network is like.
#[derive(Clone, Debug)]
pub struct Conditions {
    pub latency: Duration,
    /// Up to so much more, at random; packets may overtake each other.
    pub jitter: Duration,
    /// Bits per second.
    pub rate: u64,
    /// Bytes that wait before the cable; more are dropped.
    pub queue: u64,
    /// Bytes in the queue from which on packets are marked.
    pub marks_at: Option<u64>,
    /// Bytes of UDP payload that pass.
    pub mtu: usize,
    pub loss: f64,
    /// Once one is lost, the next ones are, with this probability.
    pub burst: f64,
    pub duplication: f64,
    pub corruption: f64,
    /// Some take so much longer, with this probability.
    pub detour: (f64, Duration),
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions {
            latency: Duration::from_micros(50),
            jitter: Duration::ZERO,
            rate: 10_000_000_000,
            queue: 1 << 20,
            marks_at: None,
            mtu: 1472,
            loss: 0.0,
            burst: 0.0,
            duplication: 0.0,
            corruption: 0.0,
            detour: (0.0, Duration::ZERO),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Datagram {
    pub at: Instant,
    sequence: u64,
    pub payload: Vec<u8>,
    congested: bool,
    capable: bool,
    addresses: [(std::net::SocketAddr, std::net::SocketAddr); 1],
}

impl Datagram {
    pub fn addresses(&self) -> Addresses {
        let [(source, destination)] = self.addresses;
        Addresses {
            source,
            destination,
        }
    }

    pub fn ecn(&self) -> Ecn {
        match (self.capable, self.congested) {
            (false, _) => Ecn::NotCapable,
            (true, false) => Ecn::Capable,
            (true, true) => Ecn::Congested,
        }
    }
}

/// Bytes of Ethernet, IP and UDP around each packet, and of the gap between frames.
pub const OVERHEAD: u64 = 14 + 20 + 8 + 24;

type Decide = dyn FnMut(Instant, &[u8]) -> bool;

/// Hears of every packet that is sent, and may lose it.
#[derive(Default)]
pub struct Filter(pub Option<Box<Decide>>);

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Filter")
    }
}

#[derive(Debug)]
pub struct Cable {
    pub filter: Filter,
    pub conditions: Conditions,
    /// Nothing passes.
    pub cut: bool,
    /// Nothing passes of these ways, by the bits of their numbers.
    pub cut_ways: u8,
    pub dropped: u64,
    random: Random,
    busy_until: Instant,
    sequence: u64,
    losing: bool,
    on_the_way: BinaryHeap<Reverse<Datagram>>,
}

impl Cable {
    pub fn new(conditions: Conditions, seed: u64) -> Cable {
        Cable {
            filter: Filter::default(),
            conditions,
            cut: false,
            cut_ways: 0,
            dropped: 0,
            random: Random::new(seed),
            busy_until: Instant::ZERO,
            sequence: 0,
            losing: false,
            on_the_way: BinaryHeap::new(),
        }
    }

    /// When the port can take another packet without a queue of its own.
    pub fn free_at(&self) -> Instant {
        self.busy_until
    }

    pub fn send(&mut self, now: Instant, addresses: Addresses, ecn: Ecn, payload: &[u8]) {
        self.send_framed(now, addresses, ecn, payload, OVERHEAD);
    }

    /// With so many bytes around the payload on the cable.
    pub fn send_framed(
        &mut self,
        now: Instant,
        addresses: Addresses,
        ecn: Ecn,
        payload: &[u8],
        overhead: u64,
    ) {
        let Conditions { rate, queue, .. } = self.conditions;
        let start = self.busy_until.max(now);
        let waiting = (start - now).as_nanos() as u64 * (rate / 1_000_000) / 8000;
        if waiting > queue {
            self.dropped += 1;
            return;
        }
        let bits = (payload.len() as u64 + overhead) * 8;
        self.busy_until = start + Duration::from_nanos(bits * 1_000_000_000 / rate);
        let way_is_cut = self.cut_ways >> (addresses.source.port() & 7) & 1 == 1;
        let is_filtered = match &mut self.filter.0 {
            Some(filter) => filter(now, payload),
            None => false,
        };
        if self.is_lost(payload.len()) || way_is_cut || is_filtered {
            self.dropped += 1;
            return;
        }
        let congested = self
            .conditions
            .marks_at
            .is_some_and(|limit| waiting > limit)
            || ecn == Ecn::Congested;
        let datagram = Datagram {
            at: self.arrival(),
            sequence: 0,
            payload: payload.to_vec(),
            congested,
            capable: matches!(ecn, Ecn::Capable | Ecn::Congested),
            addresses: [(addresses.source, addresses.destination)],
        };
        if self.random.chance(self.conditions.duplication) {
            let at = self.arrival();
            self.push(Datagram {
                at,
                ..datagram.clone()
            });
        }
        self.push(datagram);
    }

    fn push(&mut self, mut datagram: Datagram) {
        if self.random.chance(self.conditions.corruption) {
            let bit = self.random.below(datagram.payload.len() as u64 * 8) as usize;
            datagram.payload[bit / 8] ^= 1 << (bit % 8);
        }
        datagram.sequence = self.sequence;
        self.sequence += 1;
        self.on_the_way.push(Reverse(datagram));
    }

    fn is_lost(&mut self, length: usize) -> bool {
        let Conditions { loss, burst, .. } = self.conditions;
        self.losing = if self.losing && burst > 0.0 {
            self.random.chance(burst)
        } else {
            self.random.chance(loss)
        };
        self.losing || self.cut || length > self.conditions.mtu
    }

    fn arrival(&mut self) -> Instant {
        let Conditions {
            latency,
            jitter,
            detour,
            ..
        } = self.conditions.clone();
        let jitter = self.random.below(jitter.as_nanos() as u64 + 1);
        let (probability, longer) = detour;
        let detour = match self.random.chance(probability) {
            true => longer,
            false => Duration::ZERO,
        };
        self.busy_until + latency + Duration::from_nanos(jitter) + detour
    }

    pub fn next(&self) -> Option<Instant> {
        self.on_the_way.peek().map(|Reverse(datagram)| datagram.at)
    }

    pub fn take(&mut self, now: Instant) -> Option<Datagram> {
        if self.next()? > now {
            return None;
        }
        self.on_the_way.pop().map(|Reverse(datagram)| datagram)
    }
}
