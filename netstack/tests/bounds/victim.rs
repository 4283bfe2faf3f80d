//! A link with small bounds, and a host that does what it should.

use std::time::Duration;

use netstack::crc32c::Crc;
use netstack::link::window::Fixed;
use netstack::link::{
    Arrival, Config, Dropped, Event, Frozen, Id, Identity, Link, Streams, Terms, Way,
};
use netstack::time::Instant;
use netstack::wire::body::Open;
use netstack::wire::frame::Ecn;
use netstack::wire::{Header, Kind, Packet};

use super::count::held;
use super::hostile::{self, Hostile};

/// Bounds that the victim's host has set.
pub const CONNECTIONS: u32 = 8;
pub const PACKETS: usize = 64;
/// Bytes of each receiving ring.
pub const RING: u64 = 1 << 16;
/// The most that a peer may send: it tells of any credit.
const CREDIT: u64 = 1 << 30;

/// Rings without memory.
#[derive(Debug, Default)]
pub struct Void {
    /// Bytes written, contiguously or not.
    pub placed: u64,
    pub known: Known,
}

/// What its programs can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    tail: u64,
    ended: bool,
    released: u64,
}

impl Streams for Void {
    fn fetch(&mut self, _: Id, _: u64, into: &mut [u8], crc: Crc) -> Crc {
        into.fill(0);
        crc.over(into)
    }

    fn place(&mut self, _: Id, offset: u64, bytes: &[u8], crc: Crc) -> Crc {
        // [K2] [C4] Nobody reads here.
        assert!(offset + bytes.len() as u64 <= RING);
        self.placed += bytes.len() as u64;
        crc.over(bytes)
    }

    fn publish(&mut self, _: Id, offset: u64, ended: bool) -> Result<(), Frozen> {
        (self.known.tail, self.known.ended) = (offset, ended);
        Ok(())
    }

    fn release(&mut self, _: Id, offset: u64) {
        self.known.released = offset;
    }
}

pub struct Victim {
    pub link: Link<Fixed>,
    pub rings: Void,
    pub now: Instant,
    pub ways: Vec<Way>,
    /// Bytes in and out.
    pub heard: u64,
    pub said: u64,
    out: Vec<u8>,
}

impl Victim {
    pub fn new() -> Victim {
        let identity = Identity {
            incarnation: 1,
            tag: 2,
            secret: [3, 4],
        };
        let mut config = Config::new(identity, hostile::ways());
        config.most_connections = CONNECTIONS;
        config.most_packets = PACKETS;
        Victim {
            link: Link::new(config, Fixed::new(1 << 40)),
            rings: Void::default(),
            now: Instant::from_nanos(1_000_000_000),
            ways: hostile::ways(),
            heard: 0,
            said: 0,
            out: vec![0; 1500],
        }
    }

    /// With a hostile peer that has confirmed.
    pub fn met() -> (Victim, Hostile) {
        let mut victim = Victim::new();
        let way = victim.ways[0];
        let _ = victim.hear(0, &hostile::hello(Hostile::HELLO, &way));
        let (hostile, confirm) = Hostile::new(&victim.say().expect("WELCOME"), &victim.ways);
        victim.hear(0, &confirm).expect("confirmed");
        assert!(victim.link.is_up());
        (victim, hostile)
    }

    /// Takes in a packet that came a way; then the host hears all that has happened.
    pub fn hear(&mut self, way: usize, payload: &[u8]) -> Result<(), Dropped> {
        self.heard += payload.len() as u64;
        let arrival = Arrival {
            addresses: self.ways[way].incoming,
            ecn: Ecn::NotCapable,
            payload,
        };
        let taken = self.link.receive(self.now, &arrival, &mut self.rings);
        while let Some(event) = self.link.event() {
            assert!(
                !matches!(event, Event::Dead(_)),
                "the attack is over: {event:?}"
            );
        }
        taken
    }

    /// The next packet that leaves.
    pub fn say(&mut self) -> Option<Vec<u8>> {
        let departure = self
            .link
            .transmit(self.now, &mut self.rings, &mut self.out)?;
        self.said += departure.length as u64;
        Some(self.out[..departure.length].to_vec())
    }

    /// All that leaves now, at most so many.
    pub fn say_all(&mut self, most: usize) -> Vec<Header> {
        let mut said = Vec::new();
        while let Some(packet) = self.say() {
            said.push(Packet::parse(&packet).expect("a packet").header);
            assert!(said.len() <= most, "says too much: {:?}", said.last());
        }
        said
    }

    /// A connection that the peer accepts, with all the credit that there is.
    pub fn open(&mut self, hostile: &mut Hostile, name: u64) -> Id {
        let id = self.link.open(self.now, &terms(name)).expect("room");
        self.say_all(1000);
        let accept = hostile.accept(id.token(), &offer(name));
        self.hear(0, &accept).expect("accepted");
        id
    }

    /// Passes time; the peer says that it is there, and acknowledges nothing new. `path` has sent something.
    pub fn wait(&mut self, hostile: &mut Hostile, time: Duration, path: u8) {
        self.now = self.now + time;
        let header = Header {
            path,
            ..Header::of(Kind::Ack)
        };
        let ack = hostile.packet(header, &[], &[(0, 0)]);
        let _ = self.hear(path.into(), &ack);
    }
}

pub fn terms(name: u64) -> Terms {
    Terms {
        name,
        send_from: 0,
        receive_from: 0,
        ring: RING,
    }
}

pub fn offer(name: u64) -> Open {
    Open {
        name,
        token: name << 32,
        send_from: 0,
        receive_from: 0,
        credit: CREDIT,
    }
}

/// [X2] Plays rounds; then four times as many take no more memory than the first, and none more than this.
pub fn settles(
    victim: &mut Victim,
    rounds: u64,
    most: usize,
    mut play: impl FnMut(&mut Victim, u64),
) {
    let before = held();
    let mut high = [0; 2];
    for round in 0..5 * rounds {
        play(victim, round);
        let part = usize::from(round >= rounds);
        high[part] = high[part].max(held().saturating_sub(before));
    }
    println!("{high:?} bytes");
    assert!(high[1] <= high[0] && high[0] <= most, "{high:?}");
}
