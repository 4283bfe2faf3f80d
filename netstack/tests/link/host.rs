//! One end: a link, and the rings and programs behind it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use netstack::crc32c::Crc;
use netstack::link::window::Window;
use netstack::link::{
    Arrival, Config, Event, Frozen, Id, Identity, Link, Score, Streams, Terms, Way,
};
use netstack::time::Instant;
use netstack::wire::Addresses;

use super::net::{Cable, Datagram};

pub const PORT: u16 = 4690;

pub fn ways(me: u8, peer: u8, count: u16) -> Vec<Way> {
    let end = |host: u8, port: u16| SocketAddr::new(Ipv4Addr::new(10, 0, 0, host).into(), port);
    let way = |number| Way {
        outgoing: Addresses {
            source: end(me, 5000 + number),
            destination: end(peer, PORT),
        },
        incoming: Addresses {
            source: end(peer, 5000 + number),
            destination: end(me, PORT),
        },
    };
    (0..count).map(way).collect()
}

/// The eight bytes around a place of a stream: known to both ends without being sent.
fn words(name: u64, to: u8, offset: u64) -> [u8; 8] {
    (name ^ u64::from(to) << 56)
        .wrapping_add(offset / 8)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_le_bytes()
}

/// The bytes of a stream from a place on.
pub fn fill(name: u64, to: u8, offset: u64, into: &mut [u8]) {
    let mut word = [0; 8];
    for (at, slot) in (offset..).zip(into.iter_mut()) {
        if at % 8 == 0 || at == offset {
            word = words(name, to, at);
        }
        *slot = word[(at % 8) as usize];
    }
}

/// A connection's rings.
#[derive(Debug)]
pub struct Ring {
    pub name: u64,
    pub me: u8,
    pub peer: u8,
    /// What the program has written.
    pub written: u64,
    pub released: u64,
    memory: Vec<u8>,
    pub tail: u64,
    /// What the program has read and found right.
    pub read: u64,
    pub frozen: bool,
    pub ended: bool,
    /// [C11] The peer has it all, and has acknowledged our end.
    pub end_acked: bool,
    pub outcome: Option<Outcome>,
}

/// How a connection ended, as its host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Closed,
    ByPeer(u16),
    WithLink,
    ByUs,
}

impl Ring {
    pub fn size(&self) -> u64 {
        self.memory.len() as u64
    }
}

#[derive(Debug, Default)]
pub struct Rings(pub HashMap<Id, Ring>);

impl Rings {
    pub fn get(&mut self, id: Id) -> &mut Ring {
        self.0.get_mut(&id).expect("a ring")
    }

    /// The link touches no ring of a connection that is over.
    fn live(&mut self, id: Id) -> &mut Ring {
        let ring = self.get(id);
        assert_eq!(ring.outcome, None);
        ring
    }
}

impl Rings {
    fn end(&mut self, id: Id, outcome: Outcome, score: Option<Score>) {
        let ring = self.live(id);
        ring.outcome = Some(outcome);
        match score {
            // [C9]
            None => assert!(ring.ended && ring.end_acked && ring.released == ring.written),
            // [R7]
            Some(score) => {
                assert_eq!(score.placed, ring.tail);
                assert_eq!(score.acknowledged, ring.released);
            }
        }
    }
}

impl Streams for Rings {
    fn fetch(&mut self, id: Id, offset: u64, into: &mut [u8], crc: Crc) -> Crc {
        let ring = self.live(id);
        assert!(offset >= ring.released && offset + into.len() as u64 <= ring.written);
        fill(ring.name, ring.peer, offset, into);
        crc.over(into)
    }

    fn place(&mut self, id: Id, offset: u64, bytes: &[u8], crc: Crc) -> Crc {
        let ring = self.live(id);
        let size = ring.memory.len() as u64;
        // [K2] [C4]
        assert!(offset >= ring.tail && offset + bytes.len() as u64 <= ring.read + size);
        for (at, value) in (offset..).zip(bytes) {
            ring.memory[(at % size) as usize] = *value;
        }
        crc.over(bytes)
    }

    fn publish(&mut self, id: Id, offset: u64, ended: bool) -> Result<(), Frozen> {
        let ring = self.live(id);
        if ring.frozen {
            return Err(Frozen);
        }
        // [C7] The end comes once, and nothing after it.
        assert!(!ring.ended && (offset > ring.tail || ended && offset == ring.tail));
        ring.tail = offset;
        ring.ended = ended;
        Ok(())
    }

    fn release(&mut self, id: Id, offset: u64) {
        let ring = self.live(id);
        assert!(offset > ring.released && offset <= ring.written);
        ring.released = offset;
    }
}

pub struct Host<W> {
    pub me: u8,
    pub peer: u8,
    pub link: Link<W>,
    pub rings: Rings,
    pub events: Vec<Event>,
    pub ways: Vec<Way>,
}

impl<W: Window + Clone> Host<W> {
    pub fn new(me: u8, peer: u8, seed: u64, window: W, tune: impl FnOnce(&mut Config)) -> Host<W> {
        let identity = Identity {
            incarnation: seed.wrapping_mul(0x1000_0000_01b3) ^ u64::from(me) << 32,
            tag: (seed as u32).wrapping_mul(0x0100_0193) ^ u32::from(me),
            secret: [seed, !seed],
        };
        let mut config = Config::new(identity, ways(me, peer, 1));
        tune(&mut config);
        let ways = config.ways.clone();
        Host {
            me,
            peer,
            link: Link::new(config, window),
            rings: Rings::default(),
            events: Vec::new(),
            ways,
        }
    }

    pub fn address(&self) -> IpAddr {
        self.ways[0].outgoing.source.ip()
    }

    pub fn adopt(&mut self, id: Id, terms: &Terms) {
        let ring = Ring {
            name: terms.name,
            me: self.me,
            peer: self.peer,
            written: terms.send_from,
            released: terms.send_from,
            memory: vec![0; terms.ring as usize],
            tail: terms.receive_from,
            read: terms.receive_from,
            frozen: false,
            ended: false,
            end_acked: false,
            outcome: None,
        };
        self.rings.0.insert(id, ring);
    }

    pub fn write(&mut self, now: Instant, id: Id, bytes: u64) {
        let ring = self.rings.get(id);
        ring.written += bytes;
        let end = ring.written;
        self.link.has_data(now, id, end);
    }

    /// The program reads up to so many bytes and looks at each.
    pub fn read(&mut self, now: Instant, id: Id, most: u64) -> u64 {
        let ring = self.rings.get(id);
        let count = (ring.tail - ring.read).min(most);
        let size = ring.memory.len() as u64;
        let mut right = [0; 4096];
        let mut at = ring.read;
        while at < ring.read + count {
            let from = (at % size) as usize;
            let piece = (ring.read + count - at).min(size - at % size).min(4096) as usize;
            fill(ring.name, ring.me, at, &mut right[..piece]);
            let found = &ring.memory[from..from + piece];
            assert!(
                found == &right[..piece],
                "{piece} bytes at {at} of {}",
                ring.name
            );
            at += piece as u64;
        }
        ring.read += count;
        let read = ring.read;
        if count > 0 {
            self.link.has_read(now, id, read);
        }
        count
    }

    pub fn receive(&mut self, now: Instant, datagram: &Datagram) {
        let arrival = Arrival {
            addresses: datagram.addresses(),
            ecn: datagram.ecn(),
            payload: &datagram.payload,
        };
        let _ = self.link.receive(now, &arrival, &mut self.rings);
        self.hear();
    }

    /// Sends while the port is free.
    pub fn transmit(&mut self, now: Instant, cable: &mut Cable) -> usize {
        let mut out = [0; 9200];
        let mut count = 0;
        while cable.free_at() <= now {
            // An engine asks no further.
            let is_due = self.link.deadline().is_some_and(|at| at <= now);
            if !is_due && !self.link.is_waited_for() {
                break;
            }
            let Some(departure) = self.link.transmit(now, &mut self.rings, &mut out) else {
                break;
            };
            let addresses = self.ways[departure.way].outgoing;
            cable.send(now, addresses, departure.ecn, &out[..departure.length]);
            count += 1;
        }
        self.hear();
        count
    }

    /// [C8]
    pub fn reset(&mut self, now: Instant, id: Id, reason: u16) {
        self.rings.live(id).outcome = Some(Outcome::ByUs);
        self.link.reset(now, id, reason);
    }

    fn hear(&mut self) {
        while let Some(event) = self.link.event() {
            match event {
                // [C7] It was published before.
                Event::Ended(id) => assert!(self.rings.live(id).ended),
                // [C11] Once.
                Event::EndAcked(id) => {
                    let ring = self.rings.live(id);
                    assert!(ring.released == ring.written && !ring.end_acked);
                    ring.end_acked = true;
                }
                Event::Closed(id) => self.rings.end(id, Outcome::Closed, None),
                Event::Reset { id, reason, score } => {
                    self.rings.end(id, Outcome::ByPeer(reason), Some(score));
                }
                Event::Lost { id, score } => self.rings.end(id, Outcome::WithLink, Some(score)),
                Event::Frozen(id) => self.rings.live(id).outcome = Some(Outcome::ByUs),
                Event::Up | Event::Open(_) | Event::Dead(_) => {}
            }
            self.events.push(event);
        }
    }
}

/// A connection that `a` opens and `b` expects.
pub fn connect<W: Window + Clone>(
    a: &mut Host<W>,
    b: &mut Host<W>,
    now: Instant,
    name: u64,
    ring: u64,
) -> (Id, Id) {
    let terms = Terms {
        name,
        send_from: 1000,
        receive_from: 77,
        ring,
    };
    connect_on(a, b, now, &terms)
}

/// The same, on these terms of the one that opens.
pub fn connect_on<W: Window + Clone>(
    a: &mut Host<W>,
    b: &mut Host<W>,
    now: Instant,
    terms: &Terms,
) -> (Id, Id) {
    let mirrored = Terms {
        send_from: terms.receive_from,
        receive_from: terms.send_from,
        ..*terms
    };
    let expected = b.link.expect(&mirrored).expect("room");
    b.adopt(expected, &mirrored);
    let opened = a.link.open(now, terms).expect("room");
    a.adopt(opened, terms);
    (opened, expected)
}
