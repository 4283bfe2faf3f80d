//! A poll: frames in, looks at the rings, frames out, bells. Each part does a bounded amount, so that no
//! peer and no program can hold the others up.

use netstack::link::window::Window;
use netstack::port::Port;
use netstack::time::{Instant, earlier};

use crate::arrive::RECEIVED;
use crate::bells::Bells;
use crate::control::Engine;
use crate::segment::Segment;

/// When to poll again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// At once: there is more to do, or may be soon.
    pub busy: bool,
    /// When the port has room: something waits for it.
    pub full: bool,
    /// Unless at once: at this time at the latest, even if nothing happens.
    pub deadline: Option<Instant>,
}

impl<S: Segment, W: Window + Clone> Engine<S, W> {
    /// Does what there is to do, as far as it goes in one poll.
    pub fn poll(&mut self, now: Instant, port: &mut impl Port, bells: &mut impl Bells) -> Rest {
        let received = self.receive(now, port);
        self.go_on(now, received, port, bells)
    }

    /// As [`Engine::poll`], but does not look for frames: for a caller that has just done so by [`Engine::poll_in`].
    pub fn poll_out(&mut self, now: Instant, port: &mut impl Port, bells: &mut impl Bells) -> Rest {
        self.go_on(now, 0, port, bells)
    }

    fn go_on(
        &mut self,
        now: Instant,
        received: usize,
        port: &mut impl Port,
        bells: &mut impl Bells,
    ) -> Rest {
        self.counters.polls += 1;
        self.look_around(now);
        self.keep_appointments(now);
        let full = self.transmit(now, port);
        self.ring(bells);
        let busy =
            received == RECEIVED || !self.awake.is_empty() || !full && !self.queue.is_empty();
        let own = match busy {
            true => None,
            false => self.next_appointment(),
        };
        Rest {
            busy,
            full,
            deadline: earlier(own, port.deadline()),
        }
    }

    /// As [`Engine::poll`], for a caller that waits for bytes: if frames have come, and nothing is due at once,
    /// it gets the bytes before the rest is done. Mostly it answers, and the poll that sends the answer does the
    /// rest as well; a caller that does not answer has to poll soon.
    pub fn poll_in(&mut self, now: Instant, port: &mut impl Port, bells: &mut impl Bells) -> Rest {
        let received = self.receive(now, port);
        if received == 0 || received == RECEIVED || self.is_pressed(now) {
            return self.go_on(now, received, port, bells);
        }
        self.counters.polls += 1;
        self.ring(bells);
        Rest {
            busy: true,
            full: false,
            deadline: None,
        }
    }

    /// Does one of those that may have something to send have to do so now?
    fn is_pressed(&self, now: Instant) -> bool {
        let mut known = self.queue.iter().map(|peer| self.peers.get(peer.index()));
        known.any(|known| known.is_some_and(|known| known.link.is_pressed(now)))
    }
}
