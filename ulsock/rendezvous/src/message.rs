//! What two processes say to each other over a control channel, and its bytes.
//!
//! This file has the messages, `bytes` how they are written and read.

mod bytes;

use std::net::SocketAddr;

use crate::mailbox_name::MailboxName;
use shm::doorbell::DoorbellKind;

/// In place of a cookie, which is never that: a refusal of all that we show. Our user has no place more.
pub const EVERY_COOKIE: u64 = 0;

/// Version of the messages and of everything that is shared after them.
pub const VERSION: u16 = 5;

/// No message is longer.
pub const MAX: usize = 56;

/// A message. Which of them carry a descriptor is told by [`Message::carries_fd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// First on every channel, from both sides; with the sender's waiter page.
    Hello { version: u16, pid: u32 },
    /// A new segment of this pair of processes, made by the claiming side; with its memfd.
    Segment { segment: u32, conns: u32 },
    /// The claiming side has put this connection into a segment.
    Claim {
        /// SO_COOKIE of the socket that was offered.
        offer_cookie: u64,
        /// SO_COOKIE of the socket that claims it.
        claim_cookie: u64,
        segment: u32,
        conn: u32,
    },
    /// Rings one of the sender's waiters; with the end to ring.
    Doorbell { waiter: u32, kind: DoorbellKind },
    /// To the daemon: a connection that shall be known to the peer's daemon, and be given a block; with
    /// a duplicate of its socket, which proves that it is the sender's.
    Show { cookie: u64, connected: bool },
    /// From the daemon: it will not claim that connection, for this reason.
    Refuse { cookie: u64, reason: u16 },
    /// To the daemon: the program has closed a connection that the link carries; with a duplicate of its
    /// socket. The daemon does the rest (`[F24]` of docs/failover.md).
    Leave { segment: u32, conn: u32 },
    /// Between network namespaces, before a claim: lets the other end ask about our sockets; with a
    /// [window](os::window). It comes from the claiming side over the channel of the pair, and
    /// from the offering side over a channel of its own to the claiming side's mailbox.
    Window {
        /// SO_COOKIE of the socket that was offered.
        offer_cookie: u64,
        /// The sender's.
        mailbox: MailboxName,
        /// From the offering side.
        returned: bool,
    },
    /// To the daemon: the program wants an engine of its own, on a queue of the NIC or over UDP sockets.
    Ask,
    /// From the daemon: here it is; with its socket (see `netstack::phy::packet::Queue`).
    Queue(Queue),
    /// From the daemon: how frames of that engine get to one at another host.
    Route(Route),
    /// The same, for an engine over UDP sockets; with the one that is connected to the other engine (see
    /// `netstack::phy::udp::Connected`). The first one begins the engine.
    Socket(Route),
    /// To the daemon: the program's own engine carries a connection; with a duplicate of its socket, by
    /// which the daemon says the rest if the process is killed.
    Entrust { segment: u32, conn: u32 },
    /// To the daemon of the host, from a container: a connection whose other end may be in another one;
    /// with a duplicate of its socket, as in [`Message::Show`].
    Seek {
        cookie: u64,
        connected: bool,
        /// Also if kernel rules have translated its addresses.
        translated: bool,
    },
    /// From that daemon: a program in another container; with a channel to it.
    Introduce(Introduction),
    /// From that daemon: the other end of a connection that was sought.
    Found {
        cookie: u64,
        /// SO_COOKIE of the other end.
        other: u64,
        /// The introduction of the program that has it.
        number: u32,
    },
}

/// What a program is told of another, whom it cannot ask itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// In the daemon's count.
    pub number: u32,
    /// Whom the other program runs as, in the daemon's eyes.
    pub uid: u32,
    /// That is whom we run as too.
    pub same_user: bool,
    /// It is for us to claim, and for the other to offer.
    pub claims: bool,
}

/// What a program has to know of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    pub mtu: u16,
    pub address: [u8; 6],
    pub receive_slots: u32,
    pub send_slots: u32,
}

/// From one engine to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub number: u32,
    pub ours: SocketAddr,
    pub theirs: SocketAddr,
    /// Hardware addresses: ours, and of the next hop.
    pub source: [u8; 6],
    pub destination: [u8; 6],
    pub mtu: u16,
}

impl Message {
    /// Whether exactly one descriptor travels with this message; otherwise none does.
    pub fn carries_fd(&self) -> bool {
        use Message::{Ask, Claim, Found, Refuse, Route};
        !matches!(
            self,
            Claim { .. } | Refuse { .. } | Ask | Route(_) | Found { .. }
        )
    }
}
