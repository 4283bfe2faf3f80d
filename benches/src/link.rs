//! Two links in one process, from frame to frame: what a packet costs without a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use netstack::crc32c::Crc;
use netstack::link::window::Fixed;
use netstack::link::{Config, Event, Frozen, Id, Identity, Link, Streams, Terms, Way};
use netstack::time::Instant;
use netstack::wire::Addresses;
use netstack::wire::frame::{self, Offload, Outline, Route};

/// Bytes of a message, and of the body of each packet.
pub const SIZE: usize = 1024;
const RING: usize = 64 << 10;
const WINDOW: u64 = 1 << 20;
const MTU: usize = 1500;

/// A ring for each direction of the one connection. Messages never lie across its end.
struct StreamRings {
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    placed: u64,
    released: u64,
}

impl StreamRings {
    fn new() -> StreamRings {
        StreamRings {
            outgoing: vec![7; RING],
            incoming: vec![0; RING],
            placed: 0,
            released: 0,
        }
    }
}

impl Streams for StreamRings {
    fn fetch(&mut self, _: Id, offset: u64, into: &mut [u8], crc: Crc) -> Crc {
        let at = offset as usize % RING;
        crc.copy(&self.outgoing[at..at + into.len()], into)
    }

    fn place(&mut self, _: Id, offset: u64, bytes: &[u8], crc: Crc) -> Crc {
        let at = offset as usize % RING;
        crc.copy(bytes, &mut self.incoming[at..at + bytes.len()])
    }

    fn publish(&mut self, _: Id, offset: u64, _: bool) -> Result<(), Frozen> {
        self.placed = offset;
        Ok(())
    }

    fn release(&mut self, _: Id, offset: u64) {
        self.released = offset;
    }
}

/// `[W6]` Who computes and who checks UDP checksums, and in which packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksums {
    pub is_ipv6: bool,
    /// The sender leaves them to its NIC.
    pub completed: bool,
    /// The receiver's NIC has checked them.
    pub checked: bool,
}

impl Checksums {
    fn offload(self) -> Offload {
        Offload {
            udp_sent: self.completed,
            udp_received: self.checked,
        }
    }

    fn address(self, host: u8) -> IpAddr {
        if self.is_ipv6 {
            Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, host.into()).into()
        } else {
            Ipv4Addr::new(10, 0, 0, host).into()
        }
    }
}

/// A frame, and how long it is.
pub struct Frame {
    bytes: [u8; 2048],
    length: usize,
}

impl Frame {
    /// What the sender's NIC does, if the checksum is left to it.
    pub fn complete(&mut self) {
        let frame = &mut self.bytes[..self.length];
        let open = |outline: &Outline| outline.is_open(frame);
        let Some(outline) = Outline::of(frame).filter(open) else {
            return;
        };
        // The field has the sum of the pseudo header.
        let words = frame[outline.udp()..].chunks(2);
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        let sum: u32 = words.map(word).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        let field = outline.udp() + 6;
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

impl Default for Frame {
    fn default() -> Frame {
        Frame {
            bytes: [0; 2048],
            length: 0,
        }
    }
}

pub struct LinkHost {
    link: Link<Fixed>,
    rings: StreamRings,
    route: Route,
    offload: Offload,
    connection: Option<Id>,
}

impl LinkHost {
    fn new(me: u8, peer: u8, checksums: Checksums) -> LinkHost {
        let end = |host| SocketAddr::new(checksums.address(host), 4690);
        let outgoing = Addresses {
            source: end(me),
            destination: end(peer),
        };
        let way = Way {
            outgoing,
            incoming: outgoing.reversed(),
        };
        let identity = Identity {
            incarnation: me.into(),
            tag: me.into(),
            secret: [1, 2],
        };
        let config = Config {
            mtu: MTU,
            ..Config::new(identity, vec![way])
        };
        LinkHost {
            link: Link::new(config, Fixed::new(WINDOW)),
            rings: StreamRings::new(),
            route: Route::new([2, 0, 0, 0, 0, me], [2, 0, 0, 0, 0, peer], &outgoing)
                .expect("one family"),
            offload: checksums.offload(),
            connection: None,
        }
    }

    /// The next packet, in a frame.
    pub fn send(&mut self, now: Instant, out: &mut Frame) -> bool {
        let room = &mut out.bytes[self.route.overhead()..];
        let Some(departure) = self.link.transmit(now, &mut self.rings, room) else {
            return false;
        };
        let (ecn, length) = (departure.ecn, departure.length);
        let length = self.route.emit(&mut out.bytes, ecn, length, self.offload);
        out.length = length.unwrap_or(0);
        length.is_some()
    }

    /// A message is in the ring; sends it.
    pub fn send_message(&mut self, now: Instant, end: u64, out: &mut Frame) -> bool {
        if let Some(id) = self.connection {
            self.link.has_data(now, id, end);
        }
        self.send(now, out)
    }

    /// Takes a frame in.
    pub fn receive(&mut self, now: Instant, frame: &Frame) -> bool {
        let bytes = &frame.bytes[..frame.length];
        match &frame::parse(bytes, self.offload) {
            Ok(arrival) => self.link.receive(now, arrival, &mut self.rings).is_ok(),
            Err(_) => false,
        }
    }
}

/// Two hosts with one connection, open and settled.
pub struct LinkPair {
    pub now: Instant,
    pub from: LinkHost,
    pub to: LinkHost,
    /// Bytes sent so far.
    pub sent: u64,
    pub frame: Frame,
}

impl LinkPair {
    /// Over IPv4, without UDP checksums.
    pub fn new() -> LinkPair {
        LinkPair::with(Checksums::default())
    }

    pub fn with(checksums: Checksums) -> LinkPair {
        let mut pair = LinkPair {
            now: Instant::from_nanos(1_000_000_000),
            from: LinkHost::new(1, 2, checksums),
            to: LinkHost::new(2, 1, checksums),
            sent: 0,
            frame: Frame::default(),
        };
        let terms = Terms {
            name: 1,
            send_from: 0,
            receive_from: 0,
            ring: RING as u64,
        };
        pair.to.connection = pair.to.link.expect(&terms);
        pair.from.connection = pair.from.link.open(pair.now, &terms);
        pair.settle();
        let opened = std::iter::from_fn(|| pair.from.link.event());
        let is_open = |event: &Event| matches!(event, Event::Open(_));
        assert!(opened.into_iter().any(|event| is_open(&event)));
        pair
    }

    /// Until nobody has anything to say.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut quiet = true;
            while self.from.send(self.now, &mut self.frame) {
                quiet = false;
                self.to.receive(self.now, &self.frame);
            }
            while self.to.send(self.now, &mut self.frame) {
                quiet = false;
                self.from.receive(self.now, &self.frame);
            }
            if quiet && self.from.link.deadline().is_none() {
                return;
            }
            self.pass(Duration::from_micros(30));
        }
        panic!("two hosts that have nothing to do do not settle");
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// The reader has read all.
    pub fn read(&mut self) {
        if let Some(id) = self.to.connection {
            self.to.link.has_read(self.now, id, self.to.rings.placed);
        }
    }

    /// All that was sent has arrived, and the sender knows.
    pub fn is_even(&self) -> bool {
        (self.to.rings.placed, self.from.rings.released) == (self.sent, self.sent)
    }
}

impl Default for LinkPair {
    fn default() -> LinkPair {
        LinkPair::new()
    }
}
