//! Members of a group, as a program sees them, and what it hears of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A member of a group. Who leaves and joins again is another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// By chance; tells it from all others of the group.
    pub number: u32,
    /// As the process sees itself, in its own pid namespace.
    pub pid: u32,
    /// Where the daemon of its host listens; `None`: on this host.
    pub host: Option<IpAddr>,
}

/// What a member receives, in order for each other member: it joins, sends messages, and leaves or fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message is in the buffer, so many bytes of it.
    Message { from: Member, len: usize },
    /// From now on its messages come, and it gets what is sent here.
    Joined(Member),
    /// It has said that it leaves. All its messages have come before.
    Left(Member),
    /// It was killed, or the way to it was lost, or it has been put out. Perhaps it had sent more.
    Failed(Member),
}

/// How a group is joined.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where other members connect to. The loopback address is for members on this host only: to have others, let it be all
    /// addresses (`0.0.0.0:0`), or one that the peers file has for this host.
    pub address: SocketAddr,
    /// Bytes of this member's ring: what it has sent and somebody has not taken yet. A power of two. A message has at most a
    /// quarter of it.
    pub ring: usize,
    /// Who takes nothing for so long while this member waits for him is put out. `None`: never.
    pub patience: Option<Duration>,
}

impl Default for Options {
    /// For one host, with a ring of 1 MiB, and patience for 30 s.
    fn default() -> Options {
        Options {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ring: 1 << 20,
            patience: Some(Duration::from_secs(30)),
        }
    }
}
