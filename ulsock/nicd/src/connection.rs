//! A connection that a program has shown, from then until nobody needs its block any more.

use firmware::EndpointId;
use netstack::time::Instant;

use super::orphan::Orphan;
use super::peer_messages::Tuple;
use super::shares::Held;
use os::fds::InternalFd;
use rendezvous::engine_endpoint::Block;

/// Never used twice.
pub type ConnectionId = u64;

/// Where an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first engine has it: the interface, and its name there.
    Here {
        interface: usize,
        endpoint: EndpointId,
    },
    /// An engine on a thread of its own has it, or will when it has heard of it.
    Thread { engine: usize, id: ConnectionId },
}

/// What has been agreed, and an engine on a thread of its own has still to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entering {
    pub epoch: u64,
    /// Of B: the connection of the peer's that hears of it.
    pub from: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The peer's end has not been shown, or its host cannot be reached yet.
    Shown,
    /// The program has a block, and nothing has been proposed.
    Claimed,
    /// `[F2]` A's program has proposed.
    Proposed {
        epoch: u64,
        name: u64,
        engine: usize,
    },
    /// `[F3]` B's program has been asked by that connection of the peer's.
    Asked {
        epoch: u64,
        name: u64,
        from: u64,
        engine: usize,
    },
    /// The engine has it.
    Served(Place),
    /// The program's own engine has it.
    Inline,
    /// The engine has let go of it.
    Over,
}

pub struct Connection {
    /// Of its user's shares: a place, and the descriptor that is [entrusted](Self::entrusted) to us or an orphan's.
    pub _held: [Held; 2],
    /// `None`: its process is dead.
    pub program: Option<u32>,
    pub cookie: u64,
    /// `[F1]` Our end has connected: it is A.
    pub connected: bool,
    pub tuple: Tuple,
    /// The UDP port of the program's own engine, as the peer's daemon was told; 0: it has none.
    pub lease: u16,
    /// Who serves the other end.
    pub host: usize,
    pub since: Instant,
    pub stage: Stage,
    pub block: Option<Block>,
    /// Both programs have an engine of their own: the number of the route from ours to the peer's.
    pub engine_route: Option<u32>,
    /// `[F31]` What we go on with if the program is killed.
    pub entrusted: Option<InternalFd>,
    /// Of B: the connection of A's that has been told that our program looks at its block. Of A: the peer's
    /// program looks at its own.
    pub ready_for: Option<ConnectionId>,
    /// Its engine has not said yet whether it takes it.
    pub entering: Option<Entering>,
    /// `[C11]` The peer has all that the program wrote, and its end.
    pub end_acked: bool,
    /// Both directions have been carried to their ends.
    pub closed: bool,
    /// `[F24]`
    pub orphan: Option<Orphan>,
}

impl Connection {
    pub fn place(&self) -> Option<Place> {
        match self.stage {
            Stage::Served(place) => Some(place),
            _ => None,
        }
    }

    /// `[F31]`
    pub fn is_entrusted(&self) -> bool {
        self.block.as_ref().is_some_and(Block::is_entrusted)
    }

    /// We have a socket that is none of our business any more.
    pub fn has_lost_trust(&self) -> bool {
        self.entrusted.is_some() && !self.is_entrusted()
    }

    /// Its block can serve a promotion that is still to be proposed, or it will get one. B may be asked again: who
    /// asked it may have given up.
    pub fn is_fresh(&self) -> bool {
        matches!(
            self.stage,
            Stage::Shown | Stage::Claimed | Stage::Asked { .. }
        )
    }
}
