//! What the host hears from a link.

use super::Id;

/// How far a connection had come when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// Bytes of the peer that are in our ring.
    pub placed: u64,
    /// Bytes of ours that the peer has acknowledged. It may have placed more.
    pub acknowledged: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// `[R7]` No answer.
    Silence,
    /// `[H4]` The peer has a new incarnation.
    Restarted,
    /// `[H6]` The peer has said so.
    Bye,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The two know each other.
    Up,
    /// The connection has been opened by both.
    Open(Id),
    /// `[C7]` The peer sends nothing more, and all it sent is placed.
    Ended(Id),
    /// `[C11]` The peer has all bytes and the end of the stream, and its reader will see both.
    EndAcked(Id),
    /// `[C9]` Over in both directions; the id is gone.
    Closed(Id),
    /// `[C8]` Ended by the peer; the id is gone.
    Reset { id: Id, reason: u16, score: Score },
    /// `[C5]` Its ring is frozen, and the link has reset it; the id is gone.
    Frozen(Id),
    /// Ended with the link; the id is gone.
    Lost { id: Id, score: Score },
    /// The link is no more; its connections have been told of before.
    Dead(Why),
}
