//! What the programs have done: looks at their cursors.
//!
//! While a program is active its endpoint is looked at in every poll, and nobody needs to ring. One that
//! has been quiet for some polls arms its wires, and is looked at when it is rung for.

use netstack::link::window::Window;
use netstack::ring::Hostile;
use netstack::time::Instant;

use crate::control::Engine;
use crate::endpoint::Endpoint;
use crate::event::EndpointId;
use crate::segment::Segment;

/// Endpoints that are looked at in one poll.
const LOOKS_PER_POLL: usize = 64;
/// `[K4]` A reader that has freed less than this need not ring for it.
const ROOM: u64 = 1 << 11;

impl<S: Segment, W: Window + Clone> Engine<S, W> {
    /// Looks at those endpoints whose programs were active.
    pub(crate) fn look_around(&mut self, now: Instant) {
        for _ in 0..self.awake.len().min(LOOKS_PER_POLL) {
            let Some(endpoint) = self.awake.pop_front() else {
                break;
            };
            if self.look_at(now, endpoint) {
                self.awake.push_back(endpoint);
            }
        }
    }

    /// Whether to look at it in the next poll too.
    fn look_at(&mut self, now: Instant, endpoint: EndpointId) -> bool {
        self.counters.looks += 1;
        let quiet_looks = self.quiet_looks;
        let Some(known) = self.endpoint(endpoint) else {
            return false;
        };
        match look_or_arm(known, quiet_looks) {
            Ok(Seen::News) => {
                self.tell_link(now, endpoint);
                true
            }
            Ok(Seen::Nothing) => true,
            Ok(Seen::NothingForLong) => false,
            Err(_) => {
                self.expel(now, endpoint);
                false
            }
        }
    }

    /// Tells the link how far the program has come.
    pub(crate) fn tell_link(&mut self, now: Instant, endpoint: EndpointId) {
        let EndpointId { peer, id } = endpoint;
        let Some(known) = self.peer(peer) else {
            return;
        };
        let Some(rings) = known.rings.get_mut(id) else {
            return;
        };
        known.link.has_data(now, id, rings.filled());
        known.link.has_read(now, id, rings.read());
        if rings.has_ended() {
            known.link.close(now, id);
        }
        self.hear(peer);
        self.touch(peer);
    }
}

/// What a look finds.
enum Seen {
    News,
    Nothing,
    /// Its wires are armed: it is looked at when it is rung for.
    NothingForLong,
}

/// Looks at an endpoint; one that has been quiet for long asks to be rung for, and looks once more.
#[inline]
fn look_or_arm<S: Segment>(endpoint: &mut Endpoint<S>, quiet_looks: u32) -> Result<Seen, Hostile> {
    if endpoint.look()? {
        endpoint.quiet = Some(0);
        return Ok(Seen::News);
    }
    let quiet = endpoint.quiet.map_or(0, |polls| polls + 1);
    endpoint.quiet = Some(quiet);
    match quiet < quiet_looks {
        true => Ok(Seen::Nothing),
        false => arm(endpoint),
    }
}

#[inline(never)]
fn arm<S: Segment>(endpoint: &mut Endpoint<S>) -> Result<Seen, Hostile> {
    endpoint.arm(ROOM);
    let news = endpoint.look()?;
    if news {
        endpoint.disarm();
    }
    endpoint.quiet = news.then_some(0);
    Ok(match news {
        true => Seen::News,
        false => Seen::NothingForLong,
    })
}
