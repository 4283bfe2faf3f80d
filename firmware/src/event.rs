//! What the control side hears from the engine.

use netstack::link::{Id, Score, Why};

/// A peer of this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub(crate) u32);

impl PeerId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An endpoint of this engine, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId {
    pub peer: PeerId,
    pub(crate) id: Id,
}

/// How an endpoint ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `[C9]` Both directions have been carried to their ends.
    Closed,
    /// `[C8]` The peer has ended it.
    Reset { reason: u16, score: Score },
    /// `[C5]` The program has taken its ring away.
    Frozen,
    /// `[R7]` The link is dead.
    Lost(Score),
    /// The program has written what no honest one can.
    Hostile,
    /// The control side has destroyed it.
    Destroyed,
}

#[derive(Debug)]
pub enum Event<S> {
    Up(PeerId),
    /// The peer does not answer any more, or has another incarnation; its endpoints have been told of before.
    Down(PeerId, Why),
    /// `[F6]` Both ends are bound.
    Open(EndpointId),
    /// `[C11]` The peer has all that the program wrote, and its end.
    EndAcked(EndpointId),
    /// The endpoint is no more. `[F4]` The engine has let go of its segment.
    Gone {
        endpoint: EndpointId,
        how: End,
        segment: S,
    },
}
