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

/// How one host reaches another, on so many paths, in one life of its engine.
pub fn config(me: u8, peer: u8, paths: u16, life: u8) -> Config {
    let ends = |from: u8, to: u8, port| Addresses {
        source: SocketAddr::new(address(from), port),
        destination: SocketAddr::new(address(to), 4690),
    };
    let way = |number| Way {
        outgoing: ends(me, peer, 5000 + number),
        incoming: ends(peer, me, 5000 + number),
    };
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
    pub number: u8,
    pub engine: TestEngine,
    pub port: Sim,
    pub programs: BTreeMap<EndpointId, Program>,
    pub gone: Vec<(EndpointId, firmware::End)>,
    pub opened: Vec<EndpointId>,
    pub end_acked: Vec<EndpointId>,
    pub up: Vec<PeerId>,
    rest: Rest,
    is_rung: bool,
    /// The engine's, for it may have had others before.
    life: u8,
}

impl Host {
    pub fn new(number: u8, port: Sim) -> Host {
        Host {
            number,
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
            life: 0,
        }
    }

    /// The only peer.
    pub fn peer(&self) -> PeerId {
        self.engine.peers().next().expect("a peer")
    }

    pub fn meet(&mut self, peer: u8) {
        let mac = |host| [2, 0, 0, 0, 0, host];
        let config = config(self.number, peer, 2, self.life);
        let (source, destination) = (mac(self.number), mac(peer));
        self.engine
            .add_peer(config, source, destination, Adaptive::new())
            .expect("a new peer");
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

    fn poll(&mut self, now: Instant) {
        let mut rung = Rung::default();
        self.is_rung = false;
        self.rest = self.engine.poll(now, &mut self.port, &mut rung);
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
