//! Two engines, each with one connection and the program at its end in the same thread: the way of a
//! message from ring to ring.

mod cord;
mod segment;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use firmware::{Bells, EndpointId, Engine, Event, Rest};
use netstack::link::window::Adaptive;
use netstack::link::{Config, Identity, Way};
use netstack::port::Port;
use netstack::ring::{Slots, Tripwire};
use netstack::time::Instant;
use netstack::wire::Addresses;

pub use cord::Cord;
use segment::{Heap, Program};

/// Where all frames go to, and where they come from.
pub const PORT: u16 = 4690;
const FROM: u16 = 5000;

/// Nobody sleeps here.
struct Silent;

impl Bells for Silent {
    fn ring(&mut self, _: EndpointId, _: &Tripwire, _: Slots) {}
}

/// One end of the network.
#[derive(Clone, Copy, Debug)]
pub struct HostAddress {
    pub ip: IpAddr,
    pub ethernet: [u8; 6],
}

/// An engine, its port and its only program.
pub struct EngineHost<P> {
    engine: Engine<Heap, Adaptive>,
    pub port: P,
    program: Program,
    endpoint: EndpointId,
}

impl<P: Port> EngineHost<P> {
    /// With a connection to a peer that it opens or expects.
    pub fn new(
        port: P,
        now: Instant,
        here: HostAddress,
        there: HostAddress,
        opens: bool,
    ) -> EngineHost<P> {
        let ends = |from: IpAddr, to: IpAddr| Addresses {
            source: SocketAddr::new(from, FROM),
            destination: SocketAddr::new(to, PORT),
        };
        let way = Way {
            outgoing: ends(here.ip, there.ip),
            incoming: ends(there.ip, here.ip),
        };
        let identity = Identity {
            incarnation: 1 + u64::from(opens),
            tag: 3 + u32::from(opens),
            secret: [5, 6],
        };
        let config = Config {
            mtu: port.capabilities().mtu,
            ..Config::new(identity, vec![way])
        };
        let mut engine = Engine::default();
        let peer = engine
            .add_peer(config, here.ethernet, there.ethernet, Adaptive::new())
            .expect("one peer");
        let segment = Heap::new();
        let program = Program::new(segment.clone());
        let joined = match opens {
            true => engine.open(now, peer, 1, segment),
            false => engine.expect(peer, 1, segment),
        };
        let endpoint = joined.unwrap_or_else(|_| panic!("one connection"));
        EngineHost {
            engine,
            port,
            program,
            endpoint,
        }
    }

    /// The program writes a message; `false` if there is no room for all of it.
    #[inline]
    pub fn write(&mut self, message: &[u8]) -> bool {
        let rung = self.program.write(message);
        self.ring(rung.unwrap_or(0));
        rung.is_some()
    }

    /// The program reads what there is.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let (length, rung) = self.program.read(into);
        self.ring(rung);
        length
    }

    /// The engine sleeps with regard to this program.
    #[inline]
    fn ring(&mut self, rung: Slots) {
        if rung != 0 {
            self.engine.notice(self.endpoint);
        }
    }

    #[inline]
    pub fn poll(&mut self, now: Instant) -> Rest {
        self.engine.poll(now, &mut self.port, &mut Silent)
    }

    /// Polls for a caller that waits for bytes.
    #[inline]
    pub fn poll_in(&mut self, now: Instant) -> Rest {
        self.engine.poll_in(now, &mut self.port, &mut Silent)
    }

    /// Whether the connection has been opened since the last time.
    pub fn is_open(&mut self) -> bool {
        std::iter::from_fn(|| self.engine.event()).any(|event| matches!(event, Event::Open(_)))
    }

    pub fn counters(&self) -> &firmware::Counters {
        self.engine.counters()
    }
}

/// Two hosts without a network between them, whose connection is open and at rest.
pub struct EnginePair {
    pub now: Instant,
    pub one: EngineHost<Cord>,
    pub other: EngineHost<Cord>,
}

impl EnginePair {
    pub fn new() -> EnginePair {
        let place = |number| HostAddress {
            ip: [10, 0, 0, number].into(),
            ethernet: [2, 0, 0, 0, 0, number],
        };
        let now = Instant::from_nanos(1_000_000_000);
        let host = |me: u8, peer: u8| {
            let (here, there) = (place(me), place(peer));
            EngineHost::new(Cord::new(here.ethernet), now, here, there, me == 1)
        };
        let (one, other) = (host(1, 2), host(2, 1));
        let mut pair = EnginePair { now, one, other };
        pair.settle();
        assert!(pair.one.is_open() && pair.other.is_open());
        pair
    }

    /// Until nobody has anything to say: a millisecond of theirs.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            self.pass(Duration::from_micros(1));
            self.one.poll(self.now);
            self.one.port.carry(&mut self.other.port);
            self.other.poll(self.now);
            self.other.port.carry(&mut self.one.port);
        }
        // What came last is taken in.
        self.one.poll(self.now);
    }

    /// A message and its answer; the way takes a microsecond.
    pub fn there_and_back(&mut self, message: &mut [u8]) {
        for back in [false, true] {
            self.pass(Duration::from_micros(1));
            let EnginePair { now, one, other } = self;
            let (from, to) = if back { (other, one) } else { (one, other) };
            assert!(from.write(message));
            from.poll(*now);
            from.port.carry(&mut to.port);
            to.poll(*now);
            assert_eq!(to.read(message), message.len());
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }
}

impl Default for EnginePair {
    fn default() -> EnginePair {
        EnginePair::new()
    }
}
