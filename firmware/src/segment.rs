//! What the engine and one program share for one promotion of a connection.

use netstack::ring::sync::Ordering;
use netstack::ring::{Memory, Shared, tail};

/// One direction: the words that both map, and the ring.
pub struct Half<'a, M> {
    pub shared: &'a Shared,
    pub memory: &'a M,
}

/// A ring for each direction, both of one level. `[F4]` Each promotion has its own.
pub trait Segment {
    type Memory: Memory;

    /// The level of both rings.
    fn level(&self) -> u8;

    /// The program fills it, the engine empties it.
    fn sending(&self) -> Half<'_, Self::Memory>;

    /// The engine fills it, the program reads it.
    fn receiving(&self) -> Half<'_, Self::Memory>;
}

/// Prepares a segment that is all zero, before anybody else knows it: both directions are empty, and go
/// on from where the kernel stopped.
pub fn lay_out(segment: &impl Segment, send_from: u64, receive_from: u64) {
    let sending = segment.sending().shared;
    sending.producer.tail.store(send_from, Ordering::Relaxed);
    sending.consumer.head.store(send_from, Ordering::Release);
    let receiving = segment.receiving().shared;
    receiving
        .consumer
        .head
        .store(receive_from, Ordering::Relaxed);
    tail::begin(&receiving.producer.tail, receive_from);
}
