//! A window for a fabric that loses nothing.

use super::{Acked, Lost, Window};
use crate::link::rtt::Rtt;
use crate::time::Instant;

/// `[G6]` So many bytes, whatever happens.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    bytes: u64,
}

impl Fixed {
    pub fn new(bytes: u64) -> Fixed {
        Fixed { bytes }
    }
}

impl Window for Fixed {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn set_packet(&mut self, _: u64) {}

    fn on_ack(&mut self, _: &Acked<'_>) {}

    fn on_loss(&mut self, _: &Lost<'_>) {}

    fn on_spurious(&mut self, _: Instant) {}

    fn on_silence(&mut self, _: Instant) {}

    fn rate(&self, _: &Rtt) -> Option<u64> {
        None
    }
}
