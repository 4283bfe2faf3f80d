//! A peer that knows the protocol and keeps to nothing but its formats.

use std::net::{Ipv4Addr, SocketAddr};

use netstack::link::Way;
use netstack::wire::ack::{self, Report};
use netstack::wire::body::{Hello, Open, Welcome};
use netstack::wire::{Addresses, HEADER, Header, Kind, LONGEST_HEAD, PATHS, Packet, Seal, packet};

const ME: Hello = Hello {
    incarnation: 0x0bad_0bad_0bad_0bad,
    tag: 0x0bad,
};

/// The ways of the victim; the hostile peer's are these, reversed.
pub fn ways() -> Vec<Way> {
    let end = |host: u8, port: u16| SocketAddr::new(Ipv4Addr::new(10, 0, 0, host).into(), port);
    let way = |number: u16| Way {
        outgoing: Addresses {
            source: end(1, 5000 + number),
            destination: end(2, 4690),
        },
        incoming: Addresses {
            source: end(2, 5000 + number),
            destination: end(1, 4690),
        },
    };
    (0..PATHS as u16).map(way).collect()
}

/// HELLO of an arbitrary identity.
pub fn hello(from: Hello, way: &Way) -> Vec<u8> {
    seal(
        &Header::of(Kind::Hello),
        &from.emit(),
        Seal::stranger(&way.incoming),
    )
}

/// CONFIRM that answers the victim's WELCOME, or claims to.
pub fn confirm(victim: Hello, challenge: u64, way: &Way) -> Vec<u8> {
    let confirm = Welcome {
        me: ME,
        you: victim.incarnation,
        challenge,
    };
    let header = Header {
        tag: victim.tag,
        ..Header::of(Kind::Confirm)
    };
    let seal_of = Seal::link(&way.incoming, ME.incarnation, victim.incarnation);
    seal(&header, &confirm.emit(), seal_of)
}

fn seal(header: &Header, body: &[u8], seal: Seal) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes.extend_from_slice(body);
    let fixed = bytes.first_chunk_mut().expect("room");
    header.emit(fixed, None, body.len());
    let crc = seal.head(&bytes[..HEADER]).over(body);
    packet::seal(&mut bytes, crc);
    bytes
}

/// One that the victim knows.
pub struct Hostile {
    victim: Hello,
    seals: Vec<Seal>,
    /// The next number of each path.
    pub numbers: [u64; PATHS],
}

impl Hostile {
    pub const HELLO: Hello = ME;

    /// After its HELLO was answered.
    pub fn new(welcome: &[u8], ways: &[Way]) -> (Hostile, Vec<u8>) {
        let packet = Packet::parse(welcome).expect("WELCOME");
        let welcome = Welcome::parse(packet.body).expect("WELCOME");
        let victim = welcome.me;
        let seal = |way: &Way| Seal::link(&way.incoming, ME.incarnation, victim.incarnation);
        let hostile = Hostile {
            victim,
            seals: ways.iter().map(seal).collect(),
            numbers: [0; PATHS],
        };
        (hostile, confirm(victim, welcome.challenge, &ways[0]))
    }

    /// A packet with the next number of its path, acknowledging these ranges of another's or its own, largest
    /// first.
    pub fn packet(&mut self, header: Header, body: &[u8], acks: &[(u64, u64)]) -> Vec<u8> {
        let path = usize::from(header.path);
        let number = match header.kind.is_asking() {
            true => self.numbers[path],
            false => 0,
        };
        self.numbers[path] += u64::from(header.kind.is_asking());
        let header = Header {
            tag: self.victim.tag,
            number: number as u32,
            ..header
        };
        let mut bytes = vec![0; LONGEST_HEAD];
        let report = Report {
            path: header.path,
            delay_nanos: 0,
            marks: None,
        };
        let ranges = acks.iter().map(|&(low, high)| low..=high);
        let written = ack::emit(&mut bytes[HEADER..], &report, ranges);
        header.emit(bytes.first_chunk_mut().expect("room"), written, body.len());
        bytes.truncate(HEADER + written.map_or(0, |written| written.length));
        let crc = self.seals[path].head(&bytes).over(body);
        bytes.extend_from_slice(body);
        packet::seal(&mut bytes, crc);
        bytes
    }

    pub fn open(&mut self, open: &Open) -> Vec<u8> {
        self.packet(Header::of(Kind::Open), &open.emit(), &[])
    }

    pub fn accept(&mut self, token: u64, open: &Open) -> Vec<u8> {
        let header = Header {
            token,
            ..Header::of(Kind::Accept)
        };
        self.packet(header, &open.emit(), &[])
    }
}
