//! What the control side and an engine on a thread of its own say to each other. Connections go by the control side's
//! numbers: which endpoint that is, only the engine knows.

use std::net::SocketAddr;
use std::sync::Arc;

use netstack::phy::route::Hop;

use super::connection::ConnectionId;
use rendezvous::pair::{Pair, PairSegment};

/// Commands, or reports, that a channel holds. Each side empties its own at every turn, so a full one shows that the
/// other does not run.
pub const MOST_WAITING: usize = 1024;

/// From the control side.
pub enum Command {
    /// The link to a host shall be up, this way.
    Reach(Reach),
    /// The link to a host ends for good.
    Leave { host: usize },
    /// `[R10]` Is the host still there?
    Ask { host: usize },
    /// Nobody needs the port of the interface with this index.
    Close { interface: u32 },
    /// Takes a connection.
    Enter(Box<Entry>),
    /// Its program has rung.
    Notice(ConnectionId),
    /// Its program has left it to the control side, which hears its bells from now on.
    TakeOver(ConnectionId),
    /// `[F26]` Its program is dead.
    Orphan(ConnectionId),
    /// Ends it.
    Destroy(ConnectionId),
    /// For tests: the thread ends at once, and tells nobody.
    End,
}

/// The way to a host.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    pub host: usize,
    pub hop: Hop,
    /// The hardware address of the next hop.
    pub neighbour: [u8; 6],
    /// Where the engines of the two hosts with this number have their UDP ports.
    pub ours: SocketAddr,
    pub theirs: SocketAddr,
}

/// A connection that both libraries have agreed to promote.
pub struct Entry {
    pub id: ConnectionId,
    pub host: usize,
    /// `[C1]`
    pub name: u64,
    /// `[F6]` Our end opens it; else it is expected.
    pub opens: bool,
    /// Its block: that of this number, of this segment.
    pub segment: Arc<PairSegment>,
    pub conn: u32,
    pub pair: Arc<Pair>,
}

/// From an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    Up {
        host: usize,
    },
    Down {
        host: usize,
    },
    /// It has the connection.
    Entered(ConnectionId),
    /// It has not: nothing comes of the promotion.
    Refused(ConnectionId),
    /// `[C11]`
    EndAcked(ConnectionId),
    /// It has let go of it. Unless both directions were over, its word is frozen.
    Gone {
        id: ConnectionId,
        closed: bool,
    },
    /// A wire has been tripped that the control side listens to.
    Tripped(ConnectionId),
}
