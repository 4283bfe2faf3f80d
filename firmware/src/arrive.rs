//! What arrives at the port, and what the links make of it.

use core::net::SocketAddr;

use netstack::link;
use netstack::link::window::Window;
use netstack::port::Port;
use netstack::time::Instant;
use netstack::wire::frame::{self, Arrival, Offload};

use crate::control::Engine;
use crate::event::{End, EndpointId, Event, PeerId};
use crate::segment::Segment;

/// Frames that are taken in one poll.
pub const RECEIVED: usize = 64;

impl<S: Segment, W: Window + Clone> Engine<S, W> {
    /// Takes frames in; returns how many.
    pub(crate) fn receive(&mut self, now: Instant, port: &mut impl Port) -> usize {
        let offload = port.capabilities().offload;
        for count in 0..RECEIVED {
            let Some(frame) = port.receive(now) else {
                return count;
            };
            self.counters.frames_received += 1;
            let offload = Offload {
                udp_received: offload.udp_received || frame.checked,
                ..offload
            };
            match frame::parse(frame.bytes, offload) {
                Ok(arrival) => self.take(now, &arrival),
                Err(why) => self.counters.drop(why),
            }
        }
        RECEIVED
    }

    fn take(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let Some(peer) = self.peer_at(arrival.addresses.source) else {
            self.counters.strangers += 1;
            return;
        };
        let Some(known) = self.peer(peer) else {
            return;
        };
        // The link counts what it drops.
        let _ = known.link.receive(now, arrival, &mut known.rings);
        // [F6] Before the next packet is looked at: it may have bytes for what this one has opened.
        self.hear(peer);
        self.touch(peer);
    }

    /// Whose packets come from there: mostly from where the last one came.
    #[inline]
    fn peer_at(&mut self, source: SocketAddr) -> Option<PeerId> {
        match self.recent {
            Some((known, peer)) if known == source => Some(peer),
            _ => {
                let peer = self.sources.get(&source).copied()?;
                self.recent = Some((source, peer));
                Some(peer)
            }
        }
    }

    /// What a link has to say: mostly nothing.
    #[inline]
    pub(crate) fn hear(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get(peer.index()) else {
            return;
        };
        if known.link.has_events() || !known.rings.tripped.is_empty() {
            self.hear_all(peer);
        }
    }

    #[inline(never)]
    fn hear_all(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get_mut(peer.index()) else {
            return;
        };
        let tripped = known.rings.tripped.drain(..);
        self.tripped
            .extend(tripped.map(|id| EndpointId { peer, id }));
        while let Some(event) = self.peer(peer).and_then(|known| known.link.event()) {
            let name = |id| EndpointId { peer, id };
            match event {
                link::Event::Up => self.events.push_back(Event::Up(peer)),
                link::Event::Dead(why) => self.events.push_back(Event::Down(peer, why)),
                link::Event::Open(id) => self.opened(name(id)),
                // It is published in the tail word.
                link::Event::Ended(_) => {}
                link::Event::EndAcked(id) => self.events.push_back(Event::EndAcked(name(id))),
                link::Event::Closed(id) => self.let_go(name(id), End::Closed),
                link::Event::Reset { id, reason, score } => {
                    self.let_go(name(id), End::Reset { reason, score });
                }
                link::Event::Frozen(id) => self.let_go(name(id), End::Frozen),
                link::Event::Lost { id, score } => self.let_go(name(id), End::Lost(score)),
            }
        }
    }

    /// `[F6]` An endpoint that was expected is bound now; one that we opened was told by its tail word before.
    fn opened(&mut self, endpoint: EndpointId) {
        // [C5] If its library has frozen it, the first byte will show.
        let opened = self.endpoint(endpoint).is_some_and(|known| {
            let opened = known.open().is_ok();
            known.wake_all();
            opened
        });
        if opened {
            self.tripped.push(endpoint);
            self.events.push_back(Event::Open(endpoint));
        }
    }
}
