//! Two links in one process and all frames between them: some are lost, so that there is something to
//! acknowledge selectively, and one connection ends by force.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use netstack::crc32c::Crc;
use netstack::link::window::Fixed;
use netstack::link::{Config, Frozen, Id, Identity, Link, Streams, Terms, Way};
use netstack::time::Instant;
use netstack::wire::Addresses;
use netstack::wire::frame::{self, Offload, Route};

pub const PORT: u16 = 4690;
const PATHS: u16 = 2;
const RING: u64 = 16 << 10;

/// Every so many frames one is lost.
const LOST: usize = 11;

/// A frame, and when it left.
pub struct Sent {
    pub at: Instant,
    pub bytes: Vec<u8>,
}

/// Streams whose bytes nobody looks at.
struct Anything;

impl Streams for Anything {
    fn fetch(&mut self, _: Id, offset: u64, into: &mut [u8], crc: Crc) -> Crc {
        into.fill(offset as u8);
        crc.over(into)
    }

    fn place(&mut self, _: Id, _: u64, bytes: &[u8], crc: Crc) -> Crc {
        crc.over(bytes)
    }

    fn publish(&mut self, _: Id, _: u64, _: bool) -> Result<(), Frozen> {
        Ok(())
    }

    fn release(&mut self, _: Id, _: u64) {}
}

struct End {
    link: Link<Fixed>,
    /// For each path.
    routes: Vec<Route>,
}

impl End {
    fn new(hosts: [IpAddr; 2], me: usize) -> End {
        let ways: Vec<Way> = (0..PATHS).map(|path| way(hosts, me, path)).collect();
        let hardware = |host: usize| [2, 0, 0, 0, 0, host as u8];
        let route = |way: &Way| Route::new(hardware(me), hardware(1 - me), &way.outgoing);
        let routes = ways.iter().filter_map(route).collect();
        let identity = Identity {
            incarnation: 0x0123_4567_89ab_cdef ^ (me as u64) << 60,
            tag: 0xfeed_0000 + me as u32,
            secret: [3, 4],
        };
        let config = Config {
            // Numbers pass 2^32 on the way.
            first_number: (1 << 32) - 8,
            ..Config::new(identity, ways)
        };
        End {
            link: Link::new(config, Fixed::new(1 << 20)),
            routes,
        }
    }

    fn send(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut frame = vec![0; 2048];
        let room = self.routes[0].overhead();
        let departure = self.link.transmit(now, &mut Anything, &mut frame[room..])?;
        let route = &self.routes[departure.way];
        let length = route.emit(
            &mut frame,
            departure.ecn,
            departure.length,
            Offload::default(),
        );
        frame.truncate(length.expect("it fits"));
        Some(frame)
    }

    fn receive(&mut self, now: Instant, frame: &[u8]) {
        let arrival = frame::parse(frame, Offload::default()).expect("our own frame");
        let _ = self.link.receive(now, &arrival, &mut Anything);
        while self.link.event().is_some() {}
    }
}

fn way(hosts: [IpAddr; 2], me: usize, path: u16) -> Way {
    let between = |from: usize| Addresses {
        source: SocketAddr::new(hosts[from], PORT + path),
        destination: SocketAddr::new(hosts[1 - from], PORT),
    };
    Way {
        outgoing: between(me),
        incoming: between(1 - me),
    }
}

struct Session {
    now: Instant,
    ends: [End; 2],
    sent: Vec<Sent>,
}

impl Session {
    /// All that both have to say, and the time that it takes.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            while let Some((from, bytes)) = self.next_frame() {
                if self.sent.len() % LOST != LOST - 1 {
                    self.ends[1 - from].receive(self.now, &bytes);
                }
                self.sent.push(Sent {
                    at: self.now,
                    bytes,
                });
            }
            self.now = self.now + Duration::from_micros(10);
        }
    }

    fn next_frame(&mut self) -> Option<(usize, Vec<u8>)> {
        (0..2).find_map(|from| Some((from, self.ends[from].send(self.now)?)))
    }

    /// A connection from the first to the second, which expects it or does not.
    fn open(&mut self, name: u64, is_expected: bool) -> (Id, Option<Id>) {
        let terms = |send_from, receive_from| Terms {
            name,
            send_from,
            receive_from,
            ring: RING,
        };
        let other = is_expected.then(|| self.ends[1].link.expect(&terms(2 << 32, 1000)));
        let one = self.ends[0].link.open(self.now, &terms(1000, 2 << 32));
        (one.expect("room"), other.flatten())
    }
}

const MOMENT: Duration = Duration::from_millis(2);

/// From the first HELLO to BYE.
pub fn frames(hosts: [IpAddr; 2]) -> Vec<Sent> {
    let mut session = Session {
        now: Instant::from_nanos(1_000_000_000),
        ends: [End::new(hosts, 0), End::new(hosts, 1)],
        sent: Vec::new(),
    };
    let (one, other) = session.open(7, true);
    let other = other.expect("room");
    session.pass(MOMENT);
    let [from, to] = &mut session.ends;
    from.link.has_data(session.now, one, 1000 + RING);
    to.link.has_data(session.now, other, (2 << 32) + 100);
    session.pass(MOMENT);
    // All is read: there is credit again.
    session.ends[1]
        .link
        .has_read(session.now, other, 1000 + RING);
    session.pass(MOMENT);
    let (forced, expected) = session.open(8, true);
    session.open(9, false);
    session.pass(MOMENT);
    expected.expect("room");
    session.ends[0].link.reset(session.now, forced, 16);
    for (end, id) in [(0, one), (1, other)] {
        session.ends[end].link.close(session.now, id);
    }
    session.pass(MOMENT);
    session.ends[0].link.bye();
    session.pass(MOMENT);
    session.sent
}
