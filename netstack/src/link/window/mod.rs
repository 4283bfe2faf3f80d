//! How many bytes may be in flight on a path.

mod adaptive;
mod delay;
mod fixed;
mod floor;
mod round;
#[cfg(test)]
mod tests;

pub use adaptive::Adaptive;
pub use fixed::Fixed;

use super::rtt::Rtt;
use crate::time::Instant;

/// What newly arrived acknowledgements say.
#[derive(Clone, Copy, Debug)]
pub struct Acked<'a> {
    pub now: Instant,
    /// Bytes of packets newly acknowledged.
    pub bytes: u64,
    /// When the newest of them was sent.
    pub sent: Instant,
    /// The round trip of the newest, without the time in the peer's host, in nanoseconds.
    pub sample: Option<u64>,
    pub rtt: &'a Rtt,
    /// Bytes in flight before these were acknowledged.
    pub in_flight: u64,
    /// `[G7]` Whether the sender used more than half of the window meanwhile.
    pub limited: bool,
    /// Packets newly acknowledged, and how many of them came with a CE mark; both zero unless ECN is
    /// known to work on the path.
    pub packets: u32,
    pub marked: u32,
}

/// What was lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a> {
    pub now: Instant,
    pub bytes: u64,
    /// When the newest of them was sent.
    pub sent: Instant,
    pub rtt: &'a Rtt,
}

/// A rule for the size of the window. Sizes are in bytes of UDP payload.
pub trait Window {
    /// `[G1]` Bytes that may be in flight.
    fn size(&self) -> u64;

    /// The largest packet has this size from now on.
    fn set_packet(&mut self, bytes: u64);

    fn on_ack(&mut self, acked: &Acked<'_>);

    fn on_loss(&mut self, lost: &Lost<'_>);

    /// `[R6]` The last loss was none.
    fn on_spurious(&mut self, now: Instant);

    /// `[R5]` Nothing is heard any more.
    fn on_silence(&mut self, now: Instant);

    /// `[G5]` Bytes per second at which packets may leave; `None` for no bound.
    fn rate(&self, rtt: &Rtt) -> Option<u64>;
}
