//! The reliable protocol between two engines (docs/link.md): many connections, each in order, none
//! waiting for another's bytes.
//!
//! A [`Link`] has no clock, no I/O and no randomness. The engine tells it what has arrived
//! ([`Link::receive`]) and what the host has done (`host`), takes packets from it
//! ([`Link::transmit`]) as long as the port has room, comes back at its [`Link::deadline`], and hears
//! what has happened ([`Link::event`]). The rings are behind [`Streams`].
#![forbid(unsafe_code)]

mod config;
mod conn;
mod counters;
mod ecn;
mod end;
mod event;
mod handshake;
mod hear;
mod host;
mod ledger;
mod meet;
mod mtu;
mod next;
mod owed;
mod pacer;
mod path;
mod probe;
mod receive;
mod received;
mod rtt;
mod schedule;
mod settle;
mod spans;
mod streams;
mod table;
mod transmit;
pub mod window;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

pub use config::{Config, Identity, Way};
pub use conn::Terms;
pub use counters::{Dropped, LinkCounters};
pub use event::{Event, Score, Why};
pub use received::DELAY as ACK_DELAY;
pub use rtt::Rtt;
pub use streams::{Frozen, Streams};
pub use transmit::{Departure, SHORTEST};

pub use crate::wire::frame::Arrival;

use crate::time::{Instant, earlier};
use crate::wire::body::Welcome;
use conn::Conn;
use handshake::Shake;
use path::{Fates, Path};
use table::Table;
use window::Window;

/// A connection of this link, in this incarnation, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    index: u32,
    generation: u32,
}

impl Id {
    /// `[C2]` How the peer addresses it.
    pub fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    fn from_token(token: u64) -> Id {
        Id {
            index: token as u32,
            generation: (token >> 32) as u32,
        }
    }

    /// Small and dense: for tables of the host's own.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// Reasons of RESET that the link itself gives; the host's own begin at 16.
pub mod reason {
    /// `[C1]` No connection of that name is expected.
    pub const UNEXPECTED: u16 = 1;
    /// `[C3]` The two ends do not agree on where the streams are.
    pub const DISAGREEMENT: u16 = 2;
    /// `[C5]` The ring was taken away.
    pub const FROZEN: u16 = 3;
}

/// `[W4]` More could not be told apart from less.
const MOST_CREDIT: u64 = (1 << 31) - 1;

/// `[X2]` Answers to strangers that may wait at a time.
const MOST_REFUSALS: usize = 16;

/// One link to one peer.
#[derive(Debug)]
pub struct Link<W> {
    config: Config,
    /// What the window of a new path is like.
    window: W,
    shake: Shake,
    /// `[H2]` How many links there have been in this incarnation.
    links: u64,
    /// `[H2]` The answer to the last HELLO, with the way it goes.
    answer: Option<(u8, u32, Welcome)>,
    /// `[H3]` CONFIRM is to be sent.
    confirm: Option<Welcome>,
    confirm_owed: bool,
    bye: bool,
    paths: Vec<Path<W>>,
    /// Whose turn it is.
    turn: usize,
    table: Table,
    /// `[C1]` Those that the peer opens or has opened, by name.
    names: BTreeMap<u64, Id>,
    /// `[C1]` Tokens of connections that we do not want, and the path that each is told on.
    refusals: VecDeque<(u8, u64)>,
    /// `[K5]` Connections that wait for credit, by when they ask.
    questions: BTreeSet<(Instant, Id)>,
    events: VecDeque<Event>,
    counters: LinkCounters,
    fates: Fates,
    /// The host sleeps between packets.
    sleepy: bool,
}

impl<W: Window + Clone> Link<W> {
    pub fn new(config: Config, window: W) -> Link<W> {
        Link {
            config,
            window,
            shake: Shake::Down,
            links: 0,
            answer: None,
            confirm: None,
            confirm_owed: false,
            bye: false,
            paths: Vec::new(),
            turn: 0,
            table: Table::default(),
            names: BTreeMap::new(),
            refusals: VecDeque::new(),
            questions: BTreeSet::new(),
            events: VecDeque::new(),
            counters: LinkCounters::default(),
            fates: Fates::new(),
            sleepy: false,
        }
    }

    /// Whether something has happened.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What has happened.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub fn counters(&self) -> LinkCounters {
        let mut counters = self.counters.clone();
        counters.packets_lost += self.paths.iter().map(|path| path.lost).sum::<u64>();
        counters.packets_late += self.paths.iter().map(|path| path.late).sum::<u64>();
        counters
    }

    /// Connections that the link knows of, those included that the peer has yet to hear of the end of.
    pub fn connections(&self) -> usize {
        self.table.count()
    }

    /// The ways to the peer, one for each path.
    pub fn ways(&self) -> &[Way] {
        &self.config.ways
    }

    /// The two know each other.
    pub fn is_up(&self) -> bool {
        self.shake.peer().is_some()
    }

    /// `[R9]` When `transmit` has to be called even if nothing happens. `None`: never.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        let paths = self.paths.iter().map(Path::deadline);
        paths.fold(self.timer(), earlier)
    }

    /// When time runs out for what is not a path's.
    #[inline]
    pub(super) fn timer(&self) -> Option<Instant> {
        let question = self.questions.first().map(|(at, _)| *at);
        earlier(
            earlier(self.shake.deadline(), question),
            self.silence_ends(),
        )
    }

    /// Whether something waits for its turn. If not, `transmit` has nothing to say before the deadline.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        self.bye
            || self.answer.is_some()
            || self.owes_confirm()
            || !self.refusals.is_empty()
            || self.paths.iter().any(Path::is_waited_for)
    }

    /// Whether the peer should hear of something now, before whoever gets the bytes can answer.
    #[inline]
    pub fn is_pressed(&self, now: Instant) -> bool {
        let mut paths = self.paths.iter();
        self.is_waited_for() || paths.any(|path| path.received.is_pressing(now))
    }

    /// `[R4]` Whether the host sleeps between packets, from the next one on.
    pub fn set_sleepy(&mut self, sleepy: bool) {
        self.sleepy = sleepy;
    }

    /// `[P4]` The host is about to sleep: acknowledgements that are owed leave now, or with an answer that comes soon. To
    /// be woken for them a moment later would cost more than a packet.
    pub fn hurry(&mut self, now: Instant) {
        for path in &mut self.paths {
            path.received.hurry(now);
        }
    }

    /// What a path looks like: round trip, window, packet size.
    pub fn path(&self, number: usize) -> Option<PathView<'_>> {
        let path = self.paths.get(number)?;
        Some(PathView {
            rtt: path.rtt(),
            window: path.window.size(),
            in_flight: path.ledger().in_flight(),
            packet: path.mtu.size(),
            is_left: path.is_left(),
        })
    }

    fn conn(&mut self, id: Id) -> Option<&mut Conn> {
        self.table.get_mut(id)
    }

    /// Something about a connection may have changed: it may have something to send.
    fn note(&mut self, now: Instant, id: Id) {
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        if conn.can_send() && conn.send.may_close() {
            conn.debts.add(conn::Owed::Close);
        }
        let Some(path) = self.paths.get_mut(usize::from(conn.path)) else {
            return;
        };
        path.schedule.note(conn);
        // [K5]
        if conn.is_blocked() && conn.question.at.is_none() {
            let at = now + path.probe_time();
            conn.question.at = Some(at);
            self.questions.insert((at, id));
        }
    }
}

/// What [`Link::path`] shows: for statistics and tests.
#[derive(Clone, Copy, Debug)]
pub struct PathView<'a> {
    pub rtt: &'a Rtt,
    pub window: u64,
    pub in_flight: u64,
    /// Bytes of the largest packet.
    pub packet: usize,
    /// `[R8]` It does not answer; nobody uses it.
    pub is_left: bool,
}
