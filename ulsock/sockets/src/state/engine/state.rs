//! The engine, its port, and the connections that it has.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use firmware::{Bells, EndpointId, Engine, Event, PeerId, Rest};
use netstack::link::window::Adaptive;
use netstack::link::{self, Config, Identity};
use netstack::phy::Port;
use netstack::ring::{Slots, Tripwire};
use netstack::time::Instant;
use netstack::wire::Addresses;

use super::helper;
use super::port::EnginePort;
use crate::runtime::engine_flag;
use os::fds;
use os::fds::InternalFd;
use os::random;
use rendezvous::engine_endpoint::Block;
use rendezvous::message::Route;
use rendezvous::pair::Pair;
use shm::layout::{BOARDS, OFFERER};
use shm::order;
use shm::waiter;

/// A block of our pair with the daemon.
type BlockName = (u32, u32);

pub struct EngineState {
    pair: Arc<Pair>,
    port: EnginePort,
    engine: Engine<Block, Adaptive>,
    served: Served,
    /// By their numbers, and by where the engine at their other end is.
    routes: HashMap<u32, PeerId>,
    by_place: HashMap<SocketAddr, PeerId>,
    pub rest: Rest,
    glances: u32,
    /// Frames were taken in, and the rest of that poll is left to the next.
    owes: bool,
}

/// Who looks again and again polls at every so many looks, even if no frame has come: time passes.
const GLANCES: u32 = 64;

/// The connections that the engine has.
#[derive(Default)]
struct Served {
    by_endpoint: HashMap<EndpointId, Block>,
    by_block: HashMap<BlockName, KnownRoute>,
}

#[derive(Clone, Copy)]
struct KnownRoute {
    endpoint: EndpointId,
    /// `[C11]`
    end_acked: bool,
}

impl EngineState {
    pub fn new(pair: Arc<Pair>, port: EnginePort) -> EngineState {
        EngineState {
            pair,
            port,
            engine: Engine::default(),
            served: Served::default(),
            routes: HashMap::new(),
            by_place: HashMap::new(),
            rest: Rest {
                busy: false,
                full: false,
                deadline: None,
            },
            glances: 0,
            owes: false,
        }
    }

    /// Readable when frames have come.
    pub fn watch(&self) -> Option<InternalFd> {
        fds::duplicate_high(self.port.wake()?).ok()
    }

    /// In a forked child: the port stays its parent's, and must not outlive that here.
    pub fn forget(self) {
        let EngineState {
            pair,
            port,
            engine,
            served,
            ..
        } = self;
        port.forget();
        std::mem::forget((pair, engine, served));
    }

    pub fn is_of(&self, pair: &Arc<Pair>) -> bool {
        Arc::ptr_eq(&self.pair, pair)
    }

    /// The socket is for an engine over sockets.
    pub fn add_route(&mut self, route: &Route, socket: Option<InternalFd>) -> Option<()> {
        let ends = |source, destination| Addresses {
            source,
            destination,
        };
        let way = link::Way {
            outgoing: ends(route.ours, route.theirs),
            incoming: ends(route.theirs, route.ours),
        };
        if let EnginePort::Sockets(_) = self.port {
            self.port.add(&way.outgoing, socket?)?;
        }
        let identity = Identity {
            incarnation: random().ok()?,
            tag: random().ok()? as u32,
            secret: [random().ok()?, random().ok()?],
        };
        let mut config = Config::new(identity, vec![way]);
        config.mtu = usize::from(route.mtu).min(self.port.capabilities().mtu);
        let (source, destination) = (route.source, route.destination);
        let engine = &mut self.engine;
        // The daemon has lost its way there, and found it again.
        if let Some(old) = self.by_place.remove(&route.theirs) {
            engine.retire(old);
            self.routes.retain(|_, peer| *peer != old);
        }
        let peer = engine.add_peer(config, source, destination, Adaptive::new())?;
        self.routes.insert(route.number, peer);
        self.by_place.insert(route.theirs, peer);
        engine.greet(super::now(), peer);
        Some(())
    }

    pub fn enter(
        &mut self,
        now: Instant,
        route: u32,
        name: u64,
        block: Block,
        opens: bool,
    ) -> bool {
        let Some(peer) = self.routes.get(&route).copied() else {
            return false;
        };
        let place = (block.segment.number, block.conn);
        let entered = match opens {
            true => self.engine.open(now, peer, name, block.clone()),
            false => self.engine.expect(peer, name, block.clone()),
        };
        let Ok(endpoint) = entered else {
            return false;
        };
        self.served.by_endpoint.insert(endpoint, block);
        let known = KnownRoute {
            endpoint,
            end_acked: false,
        };
        self.served.by_block.insert(place, known);
        engine_flag::set(true);
        true
    }

    /// For who waits, and looks again and again.
    #[inline]
    pub fn glance(&mut self) {
        self.glances = self.glances.wrapping_add(1);
        if self.owes || self.glances.is_multiple_of(GLANCES) {
            self.poll(super::now());
        } else if self.port.has_frames() {
            self.take_in(super::now());
        }
    }

    fn take_in(&mut self, now: Instant) {
        let rest = self.engine.poll_in(now, &mut self.port, &mut self.served);
        self.owes = true;
        self.has_polled(rest);
    }

    pub fn poll(&mut self, now: Instant) {
        let (port, served) = (&mut self.port, &mut self.served);
        // What came was taken in a moment ago: another look would mostly be in vain, and is a system call.
        let rest = match std::mem::take(&mut self.owes) {
            true => self.engine.poll_out(now, port, served),
            false => self.engine.poll(now, port, served),
        };
        self.has_polled(rest);
    }

    fn has_polled(&mut self, rest: Rest) {
        self.rest = rest;
        helper::note(&self.rest);
        while let Some(event) = self.engine.event() {
            self.served.hear(event);
        }
    }

    pub fn notice(&mut self, segment: u32, conn: u32) {
        if let Some(known) = self.served.by_block.get(&(segment, conn)) {
            self.engine.notice(known.endpoint);
        }
    }

    pub fn notice_all(&mut self) {
        for known in self.served.by_block.values() {
            self.engine.notice(known.endpoint);
        }
    }

    pub fn is_end_acked(&self, segment: u32, conn: u32) -> bool {
        let known = self.served.by_block.get(&(segment, conn));
        known.is_some_and(|known| known.end_acked)
    }

    /// The peer hears of it, and the block is nobody's.
    pub fn let_go(&mut self, now: Instant, segment: u32, conn: u32) {
        if let Some(known) = self.served.by_block.get(&(segment, conn)).copied() {
            self.engine.destroy(now, known.endpoint);
            self.poll(now);
        }
    }
}

impl Served {
    fn hear(&mut self, event: Event<Block>) {
        match event {
            Event::EndAcked(endpoint) => {
                let mut all = self.by_block.values_mut();
                if let Some(known) = all.find(|known| known.endpoint == endpoint) {
                    known.end_acked = true;
                }
            }
            Event::Gone {
                endpoint, segment, ..
            } => {
                self.by_endpoint.remove(&endpoint);
                let place = (segment.segment.number, segment.conn);
                let known = self.by_block.get(&place);
                if known.is_some_and(|known| known.endpoint == endpoint) {
                    self.by_block.remove(&place);
                }
                if self.by_block.is_empty() {
                    engine_flag::set(false);
                }
            }
            Event::Up(_) | Event::Down(..) | Event::Open(_) => {}
        }
    }
}

impl Bells for Served {
    /// As the daemon would, but the sleepers are our own.
    fn ring(&mut self, endpoint: EndpointId, wire: &Tripwire, slots: Slots) {
        let Some(block) = self.by_endpoint.get(&endpoint) else {
            return;
        };
        wire.leave_stamp(order::stamp(false).0);
        let mut left = slots;
        while left != 0 {
            let name = wire.name(left.trailing_zeros() as usize);
            left &= left - 1;
            let board = (name >> 16) as usize;
            if (1..=BOARDS).contains(&board) {
                block.segment.board(OFFERER, board - 1).post(block.conn);
            }
            fence(Ordering::SeqCst);
            waiter::ring_if_asleep(name);
        }
    }
}
