//! How the engine wakes programs.

use netstack::link::window::Window;
use netstack::ring::{Slots, Tripwire};

use crate::control::Engine;
use crate::endpoint::{Endpoint, Tripped};
use crate::event::{End, EndpointId, Event};
use crate::segment::Segment;

/// The bells of programs that sleep, which the host has.
pub trait Bells {
    /// A wire has been tripped: rings the waiters at these of its slots. The names there are the
    /// program's own words, to be checked. Called at most twice for an endpoint in one poll, once for
    /// each direction.
    fn ring(&mut self, endpoint: EndpointId, wire: &Tripwire, slots: Slots);
}

impl<S: Segment, W: Window + Clone> Engine<S, W> {
    /// Rings all bells that this poll has made necessary.
    #[inline]
    pub(crate) fn ring(&mut self, bells: &mut impl Bells) {
        if !self.tripped.is_empty() || !self.leaving.is_empty() {
            self.ring_all(bells);
        }
    }

    #[inline(never)]
    fn ring_all(&mut self, bells: &mut impl Bells) {
        let mut tripped = core::mem::take(&mut self.tripped);
        for name in tripped.drain(..) {
            let known = self.peers.get_mut(name.peer.index());
            if let Some(endpoint) = known.and_then(|peer| peer.rings.get_mut(name.id)) {
                self.counters.wakes += ring_one(name, endpoint, bells);
            }
        }
        // Its memory serves again.
        self.tripped = tripped;
        for (name, mut endpoint, how) in core::mem::take(&mut self.leaving) {
            if how != End::Closed {
                endpoint.freeze();
            }
            endpoint.wake_all();
            self.counters.wakes += ring_one(name, &mut endpoint, bells);
            self.events.push_back(Event::Gone {
                endpoint: name,
                how,
                segment: endpoint.segment,
            });
        }
    }
}

/// How many wires were tripped.
fn ring_one<S: Segment>(
    name: EndpointId,
    endpoint: &mut Endpoint<S>,
    bells: &mut impl Bells,
) -> u64 {
    let Tripped { data, space } = endpoint.take_tripped();
    let (receiving, sending) = (endpoint.segment.receiving(), endpoint.segment.sending());
    let wires = [
        (&receiving.shared.wait.data, data),
        (&sending.shared.room.space, space),
    ];
    let mut count = 0;
    for (wire, slots) in wires.into_iter().filter(|(_, slots)| *slots != 0) {
        bells.ring(name, wire, slots);
        count += 1;
    }
    count
}
