//! Another host, as the peers file names it: the channel to its daemon, the route there, and what that
//! daemon has been shown.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use firmware::PeerId;
use netstack::phy::route::Hop;
use netstack::time::Instant;

use super::connection::Connection;
use super::peer_messages::{PeerMessage, Tuple};
use super::peers::Peer;
use super::secure::{HANDSHAKE, IDLE, Secure};

/// Connections that a peer's daemon may have been shown and we have not.
const MOST_SHOWN: usize = 1 << 16;
/// Messages that wait for a slow channel.
const MOST_UNSENT: usize = 1 << 16;
/// Between two calls.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Until the place of a host that is not listed any more is another one's: what engines still say of it is heard by then.
const REST: Duration = Duration::from_secs(10);

/// How frames get to a host.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub interface: usize,
    pub peer: PeerId,
    pub hop: Hop,
    /// The hardware address of the next hop.
    pub neighbour: [u8; 6],
}

/// A connection of the peer's.
#[derive(Clone, Copy, Debug)]
pub struct Theirs {
    pub id: u64,
    pub connected: bool,
    /// The UDP port of its program's own engine; 0: it has none.
    pub lease: u16,
}

#[derive(Default)]
pub struct Host {
    /// Where its daemon listens.
    pub control: Option<SocketAddr>,
    /// `None`: the peers file does not have it any more.
    pub peer: Option<Peer>,
    /// Since when it is not listed, and all that led there is taken down.
    pub parted: Option<Instant>,
    pub channel: Option<Secure>,
    /// We have called, and not the other side; and since when we have that channel.
    called: bool,
    since: Instant,
    /// The other side has said who it is, in this life of its own.
    pub life: Option<u64>,
    /// After which silence the kernel asks whether it is still there.
    pub patience: Duration,
    /// Why it cannot be called.
    pub unheard: Option<String>,
    /// When to call, and how long to wait after that.
    pub call_at: Option<Instant>,
    pause: Duration,
    pub route: Option<Route>,
    /// Why there is none.
    pub unfit: Option<String>,
    /// And that will not change by itself: programs need not wait.
    pub hopeless: bool,
    /// The link is up.
    pub up: bool,
    /// How many engines both of us have, and on which of those with threads of their own the link is up too.
    pub engines: usize,
    pub threads_up: u32,
    /// No connection needs the link: it is down, and nobody greets.
    pub at_rest: bool,
    /// When to greet, or to look for the route again.
    pub try_at: Option<Instant>,
    /// Packets that had come from there at the last look.
    pub heard: u64,
    /// By the connection as we would see it.
    shown: HashMap<Tuple, Theirs>,
    by_id: HashMap<u64, Tuple>,
    unsent: Vec<PeerMessage>,
}

impl Host {
    /// After a channel that has ended, or a call in vain. Pauses grow to the usual limit, or to `longest`.
    pub fn call_later(&mut self, now: Instant, longest: Duration) {
        self.pause = (self.pause * 2).clamp(SHORTEST_PAUSE, longest.max(LONGEST_PAUSE));
        self.call_at = Some(now + self.pause);
    }

    /// Nothing of it is left, but perhaps connections that end.
    pub fn has_parted(&self) -> bool {
        let is_bare = self.peer.is_none() && self.channel.is_none() && self.route.is_none();
        is_bare && self.parted.is_some()
    }

    /// Its place can be another one's.
    pub fn is_vacant(&self, now: Instant) -> bool {
        let rests = |parted| now.since(parted) < REST;
        self.has_parted() && !self.parted.is_some_and(rests)
    }

    pub fn is_in_touch(&self) -> bool {
        self.life.is_some()
    }

    /// Of the engines with threads of their own those whose link is up, one bit each. The peer may have come back with
    /// fewer engines than it had.
    pub fn threads_to_use(&self) -> u32 {
        let shared = (1..32).take_while(|engine| *engine < self.engines);
        shared.fold(0, |bits, engine| bits | self.threads_up & 1 << engine)
    }

    /// It should have a link, and has none.
    pub fn is_away(&self) -> bool {
        !self.up && !self.at_rest
    }

    /// Both sides have called at the same time, and each has proved itself on both channels, in whatever order: then
    /// both must keep the same one. It is that of the `first`, who has the lower address.
    pub fn keeps_channel(&self, called: bool, first: bool, now: Instant) -> bool {
        // A call that has crossed the other one had begun before that was answered.
        let crossed = called != self.called && now.since(self.since) < HANDSHAKE;
        crossed && self.called == first
    }

    /// A new channel takes the place of an old one.
    pub fn connect(&mut self, channel: Secure, called: bool, now: Instant) -> Option<Secure> {
        self.forget();
        (self.called, self.since) = (called, now);
        (self.pause, self.patience) = (Duration::ZERO, IDLE);
        self.call_at = None;
        self.unheard = None;
        self.channel.replace(channel)
    }

    pub fn disconnect(&mut self, now: Instant, longest: Duration) -> Option<Secure> {
        self.forget();
        self.call_later(now, longest);
        self.channel.take()
    }

    /// What was said on the old channel counts no more.
    fn forget(&mut self) {
        self.life = None;
        self.shown.clear();
        self.by_id.clear();
        self.unsent.clear();
    }

    /// `false`: the channel is gone, or the peer does not read. All that it has not been told it will ask
    /// for: by a new channel.
    pub fn say(&mut self, message: PeerMessage) -> bool {
        self.unsent.push(message);
        self.send_on() && self.unsent.len() <= MOST_UNSENT
    }

    /// What waits for room.
    pub fn send_on(&mut self) -> bool {
        let Some(channel) = &mut self.channel else {
            self.unsent.clear();
            return true;
        };
        let mut sent = 0;
        for message in &self.unsent {
            match channel.send(&message.encode()) {
                Ok(()) => sent += 1,
                Err(super::secure::NotSent::Full) => break,
                Err(_) => return false,
            }
        }
        self.unsent.drain(..sent);
        true
    }

    /// The peer's daemon has been shown its end. `false`: it has been shown too much.
    pub fn note(&mut self, tuple: Tuple, theirs: Theirs) -> bool {
        if let Some(old) = self.shown.insert(tuple, theirs) {
            self.by_id.remove(&old.id);
        }
        self.by_id.insert(theirs.id, tuple);
        self.shown.len() <= MOST_SHOWN && self.by_id.len() <= MOST_SHOWN
    }

    pub fn withdraw(&mut self, id: u64) {
        let Some(tuple) = self.by_id.remove(&id) else {
            return;
        };
        if self.shown.get(&tuple).is_some_and(|theirs| theirs.id == id) {
            self.shown.remove(&tuple);
        }
    }

    /// The peer's end of a connection of ours.
    pub fn other_end(&self, tuple: &Tuple) -> Option<Theirs> {
        self.shown.get(tuple).copied()
    }

    /// Its program has shown the other end of a connection.
    pub fn knows_other_end(&self, connection: &Connection) -> bool {
        let theirs = self.other_end(&connection.tuple);
        theirs.is_some_and(|theirs| theirs.connected != connection.connected)
    }

    pub fn is_known(&self, tuple: &Tuple, id: u64) -> bool {
        self.other_end(tuple).is_some_and(|theirs| theirs.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn tuple(port: u16) -> Tuple {
        let ip: IpAddr = [10, 0, 0, 1].into();
        Tuple::new(SocketAddr::new(ip, port), SocketAddr::new(ip, 7))
    }

    #[test]
    fn links_by_engines_that_the_peer_has_no_more_are_not_used() {
        let mut host = Host {
            threads_up: 0b1110,
            ..Host::default()
        };
        for (engines, expected) in [(0, 0), (1, 0), (2, 0b10), (3, 0b110), (16, 0b1110)] {
            host.engines = engines;
            assert_eq!(host.threads_to_use(), expected);
        }
    }

    #[test]
    fn the_place_of_a_host_is_free_some_time_after_it_has_gone() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut host = Host::default();
        assert!(!host.is_vacant(at(100)), "it has not parted");
        host.parted = Some(at(1));
        assert!(!host.is_vacant(at(10)) && host.is_vacant(at(11)));
    }

    #[test]
    fn the_last_that_was_shown_counts() {
        let mut host = Host::default();
        let theirs = |id| Theirs {
            id,
            connected: true,
            lease: 0,
        };
        assert!(host.note(tuple(1), theirs(5)) && host.note(tuple(1), theirs(6)));
        host.withdraw(5);
        assert!(host.is_known(&tuple(1), 6) && !host.is_known(&tuple(1), 5));
        host.withdraw(6);
        assert!(host.other_end(&tuple(1)).is_none());
    }

    #[test]
    fn of_two_calls_that_cross_both_sides_keep_the_same() {
        let kept = |first: bool, order: [bool; 2], pause: Duration| {
            let host = Host {
                called: order[0],
                ..Host::default()
            };
            let keeps = host.keeps_channel(order[1], first, Instant::ZERO + pause);
            order[usize::from(!keeps)]
        };
        let soon = Duration::from_millis(300);
        for order in [[true, false], [false, true]] {
            assert!(kept(true, order, soon), "its own");
            assert!(!kept(false, order, soon), "the other's");
            assert_eq!(kept(true, order, HANDSHAKE), order[1], "the last");
            assert_eq!(kept(false, order, HANDSHAKE), order[1], "the last");
        }
        for again in [true, false] {
            assert_eq!(kept(again, [again; 2], soon), again);
        }
    }

    #[test]
    fn nobody_shows_without_end() {
        let mut host = Host::default();
        let fits = |id: usize| {
            let theirs = Theirs {
                id: id as u64,
                connected: false,
                lease: 0,
            };
            host.note(tuple(1), theirs);
            let first = host.note(tuple(id as u16), theirs);
            host.withdraw(id as u64);
            first
        };
        assert!((0..100_000).all(fits));
    }
}
