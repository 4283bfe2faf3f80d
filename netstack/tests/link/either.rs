//! One of the two windows, chosen when the test runs.

use netstack::link::Rtt;
use netstack::link::window::{Acked, Adaptive, Fixed, Lost, Window};
use netstack::time::Instant;

#[derive(Clone, Copy, Debug)]
pub enum Either {
    Fixed(Fixed),
    Adaptive(Adaptive),
}

impl Either {
    fn window(&mut self) -> &mut dyn Window {
        match self {
            Either::Fixed(window) => window,
            Either::Adaptive(window) => window,
        }
    }
}

impl Window for Either {
    fn size(&self) -> u64 {
        match self {
            Either::Fixed(window) => window.size(),
            Either::Adaptive(window) => window.size(),
        }
    }

    fn set_packet(&mut self, bytes: u64) {
        self.window().set_packet(bytes);
    }

    fn on_ack(&mut self, acked: &Acked<'_>) {
        self.window().on_ack(acked);
    }

    fn on_loss(&mut self, lost: &Lost<'_>) {
        self.window().on_loss(lost);
    }

    fn on_spurious(&mut self, now: Instant) {
        self.window().on_spurious(now);
    }

    fn on_silence(&mut self, now: Instant) {
        self.window().on_silence(now);
    }

    fn rate(&self, rtt: &Rtt) -> Option<u64> {
        match self {
            Either::Fixed(window) => window.rate(rtt),
            Either::Adaptive(window) => window.rate(rtt),
        }
    }
}
