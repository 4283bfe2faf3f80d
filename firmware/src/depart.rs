//! What leaves by the port: peers take turns.

use alloc::vec::Vec;

use netstack::link;
use netstack::link::window::Window;
use netstack::port::Port;
use netstack::time::Instant;

use crate::control::Engine;
use crate::event::PeerId;
use crate::segment::Segment;

/// Frames that leave in one poll.
const SENT: usize = 64;

/// What became of a frame that there might have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Frame,
    /// There was none to send.
    Nothing,
    /// There is no room for one now.
    Full,
}

impl<S: Segment, W: Window + Clone> Engine<S, W> {
    /// Peers whose time has come.
    pub(crate) fn keep_appointments(&mut self, now: Instant) {
        while let Some((at, peer)) = self.agenda.first().copied() {
            if at > now {
                break;
            }
            self.agenda.pop_first();
            if let Some(known) = self.peer(peer) {
                known.noted = None;
            }
            self.touch(peer);
        }
    }

    /// `[P4]` The host is about to sleep: what is owed within the delay of acknowledgements leaves with the next poll.
    /// Whether there is anything.
    pub fn hurry(&mut self, now: Instant) -> bool {
        let soon = now + link::ACK_DELAY;
        let agenda = self.agenda.iter();
        let peers: Vec<PeerId> = agenda
            .take_while(|(at, _)| *at <= soon)
            .map(|(_, peer)| *peer)
            .collect();
        for peer in &peers {
            if let Some(known) = self.peer(*peer) {
                known.link.hurry(now);
            }
            self.touch(*peer);
        }
        !peers.is_empty()
    }

    /// Peers take turns, one frame each. `true`: the port is full.
    pub(crate) fn transmit(&mut self, now: Instant, port: &mut impl Port) -> bool {
        let mut full = false;
        for _ in 0..SENT {
            let Some(peer) = self.queue.pop_front() else {
                break;
            };
            if !self.is_due(peer, now) {
                continue;
            }
            match self.transmit_one(peer, now, port) {
                Sent::Frame => {
                    self.counters.frames_sent += 1;
                    if self.is_last(peer) {
                        let _ = port.flush(now);
                    }
                    self.queue.push_back(peer);
                }
                Sent::Nothing => self.make_appointment(peer),
                Sent::Full => {
                    self.counters.port_full += 1;
                    self.queue.push_front(peer);
                    full = true;
                    break;
                }
            }
        }
        // Also those of earlier polls: a port in trouble keeps them, and `trouble` says so.
        let _ = port.flush(now);
        full
    }

    /// No frame follows at once: this one need not wait until all is thought of.
    #[inline]
    fn is_last(&self, peer: PeerId) -> bool {
        let known = self.peers.get(peer.index());
        self.queue.is_empty() && known.is_some_and(|known| !known.link.is_waited_for())
    }

    /// Whether it may have something to send now; if not, it is called when it has.
    #[inline]
    fn is_due(&mut self, peer: PeerId, now: Instant) -> bool {
        let Some(known) = self.peers.get(peer.index()) else {
            return false;
        };
        if known.link.is_waited_for() {
            return true;
        }
        let due = known.link.deadline();
        if due.is_some_and(|at| at <= now) {
            return true;
        }
        self.appoint(peer, due);
        false
    }

    fn transmit_one(&mut self, peer: PeerId, now: Instant, port: &mut impl Port) -> Sent {
        let offload = port.capabilities().offload;
        let Some(known) = self.peer(peer) else {
            return Sent::Nothing;
        };
        let Some(slot) = port.slot() else {
            return Sent::Full;
        };
        let head = known.routes[0].overhead();
        let Some(body) = slot.get_mut(head..) else {
            return Sent::Nothing;
        };
        let departure = known.link.transmit(now, &mut known.rings, body);
        if let Some(departure) = &departure {
            let (ecn, length) = (departure.ecn, departure.length);
            let route = &known.routes[departure.way];
            // What does not fit is lost, as on any network.
            if let Some(length) = route.emit(slot, ecn, length, offload) {
                port.commit(length);
            }
        }
        self.hear(peer);
        departure.map_or(Sent::Nothing, |_| Sent::Frame)
    }

    /// It has nothing to send before its deadline.
    fn make_appointment(&mut self, peer: PeerId) {
        let due = self
            .peers
            .get(peer.index())
            .map(|known| known.link.deadline());
        self.appoint(peer, due.flatten());
    }

    /// It is called at this time. One that is to be called earlier anyway is asked again then: most
    /// appointments are put off many times before they are kept.
    #[inline]
    fn appoint(&mut self, peer: PeerId, due: Option<Instant>) {
        let Some(known) = self.peers.get_mut(peer.index()) else {
            return;
        };
        known.is_queued = false;
        known.due = due;
        if let Some(at) = due
            && known.noted.is_none_or(|noted| noted > at)
        {
            let noted = known.noted.replace(at);
            self.note(peer, noted, at);
        }
    }

    #[inline(never)]
    fn note(&mut self, peer: PeerId, noted: Option<Instant>, at: Instant) {
        if let Some(noted) = noted {
            self.agenda.remove(&(noted, peer));
        }
        self.agenda.insert((at, peer));
    }

    /// The earliest appointment that still holds. Those that do not are put right.
    pub(crate) fn next_appointment(&mut self) -> Option<Instant> {
        loop {
            let (at, peer) = self.agenda.first().copied()?;
            let known = self.peers.get_mut(peer.index());
            let due = known.as_ref().and_then(|known| known.due);
            if due == Some(at) {
                return due;
            }
            self.agenda.pop_first();
            if let Some(known) = known {
                known.noted = due;
            }
            if let Some(at) = due {
                self.agenda.insert((at, peer));
            }
        }
    }
}
