//! A host that speaks the link protocol, with programs that do not look at the bytes.

use std::time::Duration;

use netstack::crc32c::Crc;
use netstack::link::window::Window;
use netstack::link::{Arrival, Config, Event, Frozen, Id, Identity, Link, Streams, Terms, Way};
use netstack::time::Instant;

use super::dumbbell::{Host, Leaving};
use crate::host::ways;
use crate::net::{Datagram, OVERHEAD};

/// What the programs of a host do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Write as much as there is room for.
    Pour,
    /// Read everything.
    Drain,
    /// Write a request of so many bytes, wait for the answer, and again.
    Ask(u64),
    /// Answer requests of so many bytes.
    Answer(u64),
}

/// Bytes of an answer.
pub const ANSWER: u64 = 64;

/// One connection's ends of its rings.
struct Ends {
    id: Id,
    written: u64,
    released: u64,
    tail: u64,
    read: u64,
    asked_at: Instant,
}

/// The ends of the rings by index; the bytes are whatever is in the packet.
struct Rings {
    ends: Vec<Ends>,
    changed: Vec<usize>,
}

impl Streams for Rings {
    fn fetch(&mut self, _: Id, _: u64, into: &mut [u8], crc: Crc) -> Crc {
        crc.over(into)
    }

    fn place(&mut self, _: Id, _: u64, bytes: &[u8], crc: Crc) -> Crc {
        crc.over(bytes)
    }

    fn publish(&mut self, id: Id, offset: u64, _: bool) -> Result<(), Frozen> {
        self.ends[id.index()].tail = offset;
        self.changed.push(id.index());
        Ok(())
    }

    fn release(&mut self, id: Id, offset: u64) {
        self.ends[id.index()].released = offset;
        self.changed.push(id.index());
    }
}

pub struct Linked<W> {
    link: Link<W>,
    way: Way,
    rings: Rings,
    ring: u64,
    program: Program,
    delivered: u64,
    latencies: Vec<Duration>,
}

impl<W: Window + Clone> Linked<W> {
    /// `opens`: the host that opens the connections; the other one expects them.
    pub fn new(
        [me, peer]: [u8; 2],
        opens: bool,
        program: Program,
        connections: u64,
        ring: u64,
        window: W,
    ) -> Linked<W> {
        let identity = Identity {
            incarnation: 1000 + u64::from(me),
            tag: 2000 + u32::from(me),
            secret: [7; 2],
        };
        let config = Config::new(identity, ways(me, peer, 1));
        let mut host = Linked {
            way: config.ways[0],
            link: Link::new(config, window),
            rings: Rings {
                ends: Vec::new(),
                changed: Vec::new(),
            },
            ring,
            program,
            delivered: 0,
            latencies: Vec::new(),
        };
        for name in 0..connections {
            host.connect(name, opens);
        }
        host
    }

    fn connect(&mut self, name: u64, opens: bool) {
        let terms = Terms {
            name,
            send_from: 0,
            receive_from: 0,
            ring: self.ring,
        };
        let now = Instant::from_nanos(1_000_000_000);
        let id = match opens {
            true => self.link.open(now, &terms),
            false => self.link.expect(&terms),
        };
        let id = id.expect("room");
        assert_eq!(id.index(), self.rings.ends.len());
        self.rings.ends.push(Ends {
            id,
            written: 0,
            released: 0,
            tail: 0,
            read: 0,
            asked_at: now,
        });
    }

    /// The programs get up.
    fn work(&mut self, now: Instant) {
        while let Some(event) = self.link.event() {
            match event {
                Event::Up => {}
                Event::Open(id) => self.begin(now, id.index()),
                other => panic!("{other:?}"),
            }
        }
        while let Some(index) = self.rings.changed.pop() {
            self.go_on(now, index);
        }
    }

    fn begin(&mut self, now: Instant, index: usize) {
        match self.program {
            Program::Pour => self.write(now, index, self.ring),
            Program::Ask(bytes) => self.write(now, index, bytes),
            Program::Drain | Program::Answer(_) => {}
        }
    }

    fn write(&mut self, now: Instant, index: usize, bytes: u64) {
        let ends = &mut self.rings.ends[index];
        ends.written += bytes;
        ends.asked_at = now;
        self.link.has_data(now, ends.id, ends.written);
    }

    fn go_on(&mut self, now: Instant, index: usize) {
        let ends = &self.rings.ends[index];
        let id = ends.id;
        match self.program {
            Program::Pour => {
                let room = self.ring - (ends.written - ends.released);
                if room > 0 {
                    self.write(now, index, room);
                }
            }
            Program::Drain => self.read(now, id, ends.tail),
            Program::Ask(bytes) => {
                let (tail, answered) = (ends.tail, ends.tail * bytes == ends.written * ANSWER);
                let took = now - ends.asked_at;
                self.read(now, id, tail);
                if answered {
                    self.latencies.push(took);
                    self.write(now, index, bytes);
                }
            }
            Program::Answer(bytes) => {
                let (tail, answers) = (ends.tail, ends.tail / bytes * ANSWER);
                let more = answers - ends.written;
                self.read(now, id, tail);
                if more > 0 {
                    self.write(now, index, more);
                }
            }
        }
    }

    fn read(&mut self, now: Instant, id: Id, tail: u64) {
        let ends = &mut self.rings.ends[id.index()];
        self.delivered += tail - ends.read;
        ends.read = tail;
        self.link.has_read(now, id, tail);
    }
}

impl<W: Window + Clone> Host for Linked<W> {
    fn receive(&mut self, now: Instant, datagram: &Datagram) {
        let arrival = Arrival {
            addresses: datagram.addresses(),
            ecn: datagram.ecn(),
            payload: &datagram.payload,
        };
        let _ = self.link.receive(now, &arrival, &mut self.rings);
        self.work(now);
    }

    fn transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Leaving> {
        let departure = self.link.transmit(now, &mut self.rings, out);
        self.work(now);
        let departure = departure?;
        Some(Leaving {
            length: departure.length,
            ecn: departure.ecn,
            overhead: OVERHEAD,
            addresses: self.way.outgoing,
        })
    }

    fn deadline(&self) -> Option<Instant> {
        self.link.deadline()
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }

    fn latencies(&self) -> &[Duration] {
        &self.latencies
    }
}
