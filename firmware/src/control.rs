//! The engine, and what its control side does with it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;

use netstack::link::window::Window;
use netstack::link::{self, Id, Link, Terms};
use netstack::ring::tail;
use netstack::time::Instant;
use netstack::wire::PATHS;
use netstack::wire::frame::Route;

use crate::counters::Counters;
use crate::endpoint::{Cursors, Endpoint};
use crate::event::{End, EndpointId, Event, PeerId};
use crate::peer::Peer;
use crate::segment::Segment;

/// `[C8]` Reasons of RESET that the engine gives.
pub mod reason {
    /// The program has written what no honest one can.
    pub const HOSTILE: u16 = 16;
    /// The control side has ended it.
    pub const DESTROYED: u16 = 17;
}

/// Looks without news after which an endpoint wants to be rung for. An endpoint that answers at once
/// is still looked at when its answer comes, and need not ring.
const QUIET_LOOKS: u32 = 64;

/// The control program of one NIC.
pub struct Engine<S, W> {
    /// By their ids.
    pub(crate) peers: Vec<Peer<S, W>>,
    /// Where their packets come from, each way's: several engines may share a host's address, each
    /// with UDP ports of its own.
    pub(crate) sources: BTreeMap<SocketAddr, PeerId>,
    /// The one of them that was looked for last.
    pub(crate) recent: Option<(SocketAddr, PeerId)>,
    /// Peers that may have something to send, each once.
    pub(crate) queue: VecDeque<PeerId>,
    /// When peers have to be called even if nothing happens.
    pub(crate) agenda: BTreeSet<(Instant, PeerId)>,
    /// Endpoints that are looked at in every poll, each once.
    pub(crate) awake: VecDeque<EndpointId>,
    /// Looks without news after which an endpoint wants to be rung for.
    pub(crate) quiet_looks: u32,
    /// Endpoints whose bells are to be rung at the end of this poll.
    pub(crate) tripped: Vec<EndpointId>,
    /// Endpoints that are over, and whose sleepers have to hear of it.
    pub(crate) leaving: Vec<(EndpointId, Endpoint<S>, End)>,
    pub(crate) events: VecDeque<Event<S>>,
    pub(crate) counters: Counters,
}

/// Why an endpoint was not taken; the segment is given back.
#[derive(Debug)]
pub enum Refused<S> {
    NoSuchPeer(S),
    /// Its cursors are not where those of a segment that waits for an engine can be.
    Cursors(S),
    /// `[F8]` The library has given up meanwhile.
    GivenUp(S),
    /// `[X2]` The link has as many connections as it may, or one of that name.
    Full(S),
}

impl<S> Refused<S> {
    /// What is given back.
    pub fn segment(&self) -> &S {
        match self {
            Refused::NoSuchPeer(segment)
            | Refused::Cursors(segment)
            | Refused::GivenUp(segment)
            | Refused::Full(segment) => segment,
        }
    }
}

impl<S: Segment, W: Window + Clone> Default for Engine<S, W> {
    fn default() -> Engine<S, W> {
        Engine {
            peers: Vec::new(),
            sources: BTreeMap::new(),
            recent: None,
            queue: VecDeque::new(),
            agenda: BTreeSet::new(),
            awake: VecDeque::new(),
            quiet_looks: QUIET_LOOKS,
            tripped: Vec::new(),
            leaving: Vec::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }
}

impl<S: Segment, W: Window + Clone> Engine<S, W> {
    /// A peer, and the Ethernet addresses of the way there. `None` if its ways are not one to eight
    /// between two addresses, or the packets of one of them come from where another peer's do.
    pub fn add_peer(
        &mut self,
        config: link::Config,
        source: [u8; 6],
        destination: [u8; 6],
        window: W,
    ) -> Option<PeerId> {
        let ways = &config.ways;
        let address = ways.first()?.incoming.source.ip();
        let is_there = |way: &link::Way| {
            way.incoming.source.ip() == address && way.outgoing.destination.ip() == address
        };
        let is_taken = |way: &link::Way| self.sources.contains_key(&way.incoming.source);
        let fits = ways.len() <= PATHS && ways.iter().all(is_there);
        if !fits || ways.iter().any(is_taken) {
            return None;
        }
        let routes = routes(ways, source, destination)?;
        let id = PeerId(self.peers.len() as u32);
        let sources = ways.iter().map(|way| (way.incoming.source, id));
        self.sources.extend(sources);
        let mut link = Link::new(config, window);
        link.set_sleepy(self.quiet_looks == 0);
        self.peers.push(Peer::new(link, routes));
        Some(id)
    }

    /// Its neighbour has another Ethernet address.
    pub fn redirect(&mut self, peer: PeerId, source: [u8; 6], destination: [u8; 6]) {
        let Some(known) = self.peer(peer) else {
            return;
        };
        if let Some(routes) = routes(known.link.ways(), source, destination) {
            known.routes = routes;
        }
    }

    /// `[H1]` Gets to know a peer before there is anything to send.
    pub fn greet(&mut self, now: Instant, peer: PeerId) {
        if let Some(known) = self.peer(peer) {
            known.link.greet(now);
            self.touch(peer);
        }
    }

    /// `[R10]` Is a peer still there? If it does not answer, its link goes down.
    pub fn ask(&mut self, peer: PeerId) {
        if let Some(known) = self.peer(peer) {
            known.link.ask();
            self.touch(peer);
        }
    }

    /// `[H6]` Ends the link to a peer for good: another may have its addresses and ports.
    pub fn retire(&mut self, peer: PeerId) {
        self.leave(peer);
        self.sources.retain(|_, known| *known != peer);
        self.recent = None;
    }

    /// `[H6]` Ends the link to a peer, and its endpoints with it; it can be used again at once.
    pub fn leave(&mut self, peer: PeerId) {
        if let Some(known) = self.peer(peer) {
            known.link.bye();
            self.hear(peer);
            self.touch(peer);
        }
    }

    /// `[F6]` A connection that the peer's library has agreed to: says so in its word, and opens it.
    pub fn open(
        &mut self,
        now: Instant,
        peer: PeerId,
        name: u64,
        segment: S,
    ) -> Result<EndpointId, Refused<S>> {
        // The word first: a link that has been told to open says so to the peer, whatever comes then ([C8]).
        let word = &segment.receiving().shared.producer.tail;
        if tail::open(word).is_err() {
            return Err(Refused::GivenUp(segment));
        }
        let joined = self.join(peer, name, segment, |link, terms| link.open(now, terms));
        match joined {
            Ok(endpoint) => {
                if let Some(known) = self.endpoint(endpoint) {
                    known.wake_all();
                }
                self.tripped.push(endpoint);
                Ok(endpoint)
            }
            Err(refused) => {
                // The library is bound: it goes back by a record.
                tail::freeze(&refused.segment().receiving().shared.producer.tail);
                Err(refused)
            }
        }
    }

    /// `[C1]` A connection that the peer will open.
    pub fn expect(
        &mut self,
        peer: PeerId,
        name: u64,
        segment: S,
    ) -> Result<EndpointId, Refused<S>> {
        self.join(peer, name, segment, |link, terms| link.expect(terms))
    }

    fn join(
        &mut self,
        peer: PeerId,
        name: u64,
        segment: S,
        enter: impl FnOnce(&mut Link<W>, &Terms) -> Option<Id>,
    ) -> Result<EndpointId, Refused<S>> {
        let Some(known) = self.peer(peer) else {
            return Err(Refused::NoSuchPeer(segment));
        };
        let Ok(cursors) = Cursors::of(&segment) else {
            return Err(Refused::Cursors(segment));
        };
        let terms = Terms {
            name,
            send_from: cursors.freed,
            receive_from: cursors.placed,
            ring: netstack::ring::mark::LEVEL_SIZE[usize::from(segment.level())],
        };
        let Some(id) = enter(&mut known.link, &terms) else {
            return Err(Refused::Full(segment));
        };
        known.rings.insert(Endpoint::new(id, segment, cursors));
        let endpoint = EndpointId { peer, id };
        self.notice(endpoint);
        self.touch(peer);
        Ok(endpoint)
    }

    /// How long programs that were active are looked at in every poll: with `true` so long that those that answer at
    /// once need not ring; else not at all, for who has to sleep soon.
    pub fn expect_answers(&mut self, expect: bool) {
        let quiet_looks = if expect { QUIET_LOOKS } else { 0 };
        if core::mem::replace(&mut self.quiet_looks, quiet_looks) != quiet_looks {
            let links = self.peers.iter_mut().map(|known| &mut known.link);
            links.for_each(|link| link.set_sleepy(!expect));
        }
    }

    /// The program has rung for this endpoint: it has written or read.
    pub fn notice(&mut self, endpoint: EndpointId) {
        let Some(known) = self.endpoint(endpoint) else {
            return;
        };
        if known.quiet.is_none() {
            known.quiet = Some(0);
            // While it is looked at in every poll, nobody needs to ring.
            known.disarm();
            self.awake.push_back(endpoint);
        }
    }

    /// `[F26]` The program is dead: its bytes go, and their end, but nothing comes to it any more.
    pub fn orphan(&mut self, now: Instant, endpoint: EndpointId) {
        let Some(known) = self.endpoint(endpoint) else {
            return;
        };
        // It may have gone on by the kernel: nobody but it knows where its stream ends.
        if known.is_frozen() {
            self.destroy(now, endpoint);
            return;
        }
        match known.orphan() {
            Ok(()) => self.tell_link(now, endpoint),
            Err(_) => self.expel(now, endpoint),
        }
    }

    /// Ends an endpoint at once; the peer hears of it.
    pub fn destroy(&mut self, now: Instant, endpoint: EndpointId) {
        self.end(now, endpoint, reason::DESTROYED, End::Destroyed);
    }

    /// All peers, each once.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + '_ {
        let is_first = |source: &SocketAddr, id: PeerId| {
            let ways = self.link(id).map(Link::ways).unwrap_or_default();
            ways.first()
                .is_some_and(|way| way.incoming.source == *source)
        };
        let sources = self.sources.iter();
        sources.filter_map(move |(source, id)| is_first(source, *id).then_some(*id))
    }

    /// What has happened.
    pub fn event(&mut self) -> Option<Event<S>> {
        self.events.pop_front()
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The link to a peer, for statistics and tests.
    pub fn link(&self, peer: PeerId) -> Option<&Link<W>> {
        Some(&self.peers.get(peer.index())?.link)
    }

    pub(crate) fn peer(&mut self, peer: PeerId) -> Option<&mut Peer<S, W>> {
        self.peers.get_mut(peer.index())
    }

    pub(crate) fn endpoint(&mut self, endpoint: EndpointId) -> Option<&mut Endpoint<S>> {
        self.peer(endpoint.peer)?.rings.get_mut(endpoint.id)
    }

    /// A peer may have something to send.
    pub(crate) fn touch(&mut self, peer: PeerId) {
        let Some(known) = self.peer(peer) else {
            return;
        };
        if !known.is_queued {
            known.is_queued = true;
            self.queue.push_back(peer);
        }
    }

    /// A program has written nonsense: its endpoint ends, and no other.
    pub(crate) fn expel(&mut self, now: Instant, endpoint: EndpointId) {
        self.counters.hostile += 1;
        self.end(now, endpoint, reason::HOSTILE, End::Hostile);
    }

    fn end(&mut self, now: Instant, endpoint: EndpointId, reason: u16, how: End) {
        let Some(known) = self.peer(endpoint.peer) else {
            return;
        };
        known.link.reset(now, endpoint.id, reason);
        self.let_go(endpoint, how);
        self.touch(endpoint.peer);
    }

    /// An endpoint is over, for the link too.
    pub(crate) fn let_go(&mut self, endpoint: EndpointId, how: End) {
        let removed = self
            .peer(endpoint.peer)
            .and_then(|peer| peer.rings.remove(endpoint.id));
        if let Some(removed) = removed {
            self.leaving.push((endpoint, removed, how));
        }
    }
}

/// One for each way; `None` if one of them leads from one family of addresses to the other.
fn routes(ways: &[link::Way], source: [u8; 6], destination: [u8; 6]) -> Option<Vec<Route>> {
    let route = |way: &link::Way| Route::new(source, destination, &way.outgoing);
    ways.iter().map(route).collect()
}
