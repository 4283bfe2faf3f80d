//! A host: an engine, its port, and the programs that it serves.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use firmware::{Bells, EndpointId, Engine, Event, PeerId, Rest};
use netstack::link::window::Adaptive;
use netstack::link::{Config, Identity, Way};
use netstack::phy::{Port, Sim};
use netstack::ring::{Slots, Tripwire};
use netstack::time::Instant;
use netstack::wire::Addresses;

use crate::program::{self, Program, Shm};

pub type TestEngine = Engine<Shm, Adaptive>;

pub fn address(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, host).into()
}

/// Where an engine is: hosts may have several, each with ports of its own.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    pub host: u8,
    pub number: u8,
}

/// Where packets to the first engine of a host go.
pub const PORT: u16 = 4690;

/// How one engine reaches another, on so many paths, in one life of its own.
pub fn config(me: Seat, peer: Seat, paths: u16, life: u8) -> Config {
    let ends = |from: Seat, to: Seat, path| Addresses {
        source: SocketAddr::new(
            address(from.host),
            5000 + 100 * u16::from(from.number) + path,
        ),
        destination: SocketAddr::new(address(to.host), PORT + u16::from(to.number)),
    };
    let way = |path| Way {
        outgoing: ends(me, peer, path),
        incoming: ends(peer, me, path),
    };
    let seat = |seat: Seat| seat.number << 4 | seat.host;
    let (me, peer) = (seat(me), seat(peer));
    let identity = Identity {
        incarnation: u64::from(life) << 48 | u64::from(me) << 8 | u64::from(peer),
        tag: u32::from(life) << 16 | u32::from(me) << 8 | u32::from(peer),
        secret: [u64::from(me), 99],
    };
    Config::new(identity, (0..paths).map(way).collect())
}

#[derive(Default)]
struct Rung(Vec<(EndpointId, u32, Slots)>);

impl Bells for Rung {
    fn ring(&mut self, endpoint: EndpointId, wire: &Tripwire, slots: Slots) {
        self.0.push((endpoint, wire.name(program::SLOT), slots));
    }
}

pub struct Host {
    pub seat: Seat,
    pub engine: TestEngine,
    pub port: Sim,
    pub programs: BTreeMap<EndpointId, Program>,
    pub gone: Vec<(EndpointId, firmware::End)>,
    pub opened: Vec<EndpointId>,
    pub end_acked: Vec<EndpointId>,
    pub up: Vec<PeerId>,
    rest: Rest,
    is_rung: bool,
    /// A caller that waits for bytes polls its engine.
    pub glances: bool,
    /// And has left something to the next poll.
    owes: bool,
    /// The engine's, for it may have had others before.
    life: u8,
}

impl Host {
    /// The only engine of a host.
    pub fn new(host: u8, port: Sim) -> Host {
        Host::at(Seat { host, number: 0 }, port)
    }

    pub fn at(seat: Seat, port: Sim) -> Host {
        Host {
            seat,
            engine: TestEngine::default(),
            port,
            programs: BTreeMap::new(),
            gone: Vec::new(),
            opened: Vec::new(),
            end_acked: Vec::new(),
            up: Vec::new(),
            rest: Rest {
                busy: true,
                full: false,
                deadline: None,
            },
            is_rung: true,
            glances: false,
            owes: false,
            life: 0,
        }
    }

    /// The only peer.
    pub fn peer(&self) -> PeerId {
        self.engine.peers().next().expect("a peer")
    }

    pub fn meet(&mut self, host: u8) {
        let met = self.meet_at(Seat { host, number: 0 });
        met.expect("a new peer");
    }

    pub fn meet_at(&mut self, peer: Seat) -> Option<PeerId> {
        self.add(config(self.seat, peer, 2, self.life), peer)
    }

    pub fn add(&mut self, config: Config, peer: Seat) -> Option<PeerId> {
        let mac = |seat: Seat| [2, 0, 0, 0, 0, seat.host];
        let (source, destination) = (mac(self.seat), mac(peer));
        self.engine
            .add_peer(config, source, destination, Adaptive::new())
    }

    /// Another engine has taken the place of the last.
    pub fn reborn(&mut self, life: u8) {
        self.life = life;
        self.is_rung = true;
    }

    /// The control side has done something: the engine is polled.
    pub fn prod(&mut self) {
        self.is_rung = true;
    }

    /// When something happens by itself.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let programs = self.programs.values().any(|program| program.is_awake);
        if self.rest.busy || self.is_rung || programs {
            return Some(now);
        }
        let own = self.rest.deadline;
        own.into_iter().chain(self.port.deadline()).min()
    }

    /// Runs the programs that are awake, and the engine if it has a reason.
    pub fn run(&mut self, now: Instant) {
        for (name, program) in &mut self.programs {
            if program.is_awake && program.run() {
                self.engine.notice(*name);
                self.is_rung = true;
            }
        }
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.rest.busy || self.is_rung || due(self.rest.deadline) || due(self.port.deadline()) {
            self.poll(now);
        }
    }

    pub fn poll(&mut self, now: Instant) {
        let mut rung = Rung::default();
        self.is_rung = false;
        let owed = self.owes;
        self.owes = self.glances && !owed;
        self.rest = match (self.owes, owed) {
            (true, _) => self.engine.poll_in(now, &mut self.port, &mut rung),
            (false, true) => self.engine.poll_out(now, &mut self.port, &mut rung),
            (false, false) => self.engine.poll(now, &mut self.port, &mut rung),
        };
        for (name, bell, slots) in rung.0 {
            if let Some(program) = self.programs.get_mut(&name) {
                assert_eq!(bell, program::BELL);
                program.wake(slots);
            }
        }
        while let Some(event) = self.engine.event() {
            match event {
                Event::Up(peer) => self.up.push(peer),
                Event::Down(..) => {}
                Event::Open(name) => self.opened.push(name),
                Event::EndAcked(name) => self.end_acked.push(name),
                Event::Gone { endpoint, how, .. } => self.gone.push((endpoint, how)),
            }
        }
    }
}
