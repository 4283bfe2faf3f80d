//! What leaves by the port: peers take turns.

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
                known.due = None;
            }
            self.touch(peer);
        }
    }

    /// Peers take turns, one frame each. `true`: the port is full.
    pub(crate) fn transmit(&mut self, now: Instant, port: &mut impl Port) -> bool {
        let mut full = false;
        for _ in 0..SENT {
            let Some(peer) = self.queue.pop_front() else {
                break;
            };
            match self.transmit_one(peer, now, port) {
                Sent::Frame => {
                    self.counters.frames_sent += 1;
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
        // Also those of earlier polls: a port in trouble keeps them, and says so to who asks.
        let _ = port.flush(now);
        full
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
        let Some(known) = self.peers.get_mut(peer.index()) else {
            return;
        };
        known.is_queued = false;
        let due = known.link.deadline();
        if due != known.due {
            if let Some(at) = known.due {
                self.agenda.remove(&(at, peer));
            }
            if let Some(at) = due {
                self.agenda.insert((at, peer));
            }
            known.due = due;
        }
    }
}
