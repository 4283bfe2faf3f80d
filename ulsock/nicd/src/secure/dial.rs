//! Streams for channels: made without waiting, from the address by which the peers file knows this host.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::peers::Peer;

/// A peer's host that has vanished is noticed so soon: a channel has no traffic of its own to show it.
pub const IDLE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(2);
const PROBES: u32 = 3;
const UNANSWERED: Duration = Duration::from_secs(10);

/// A stream on its way to the peer's nicd.
pub fn dial(own: &Peer, peer: &Peer) -> io::Result<TcpStream> {
    let family = match peer.control {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(own.control.ip(), 0))?;
    match rustix::net::connect(&socket, &peer.control) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepintvl(stream, INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    be_patient(stream, IDLE)
}

/// After so much silence the peer is asked. All that it is asked counts, and not the first question alone: the time limit is
/// that of the silence before it, too.
pub(super) fn be_patient(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    let unanswered = silence + UNANSWERED - IDLE;
    sockopt::set_tcp_keepidle(stream, silence)?;
    sockopt::set_tcp_user_timeout(stream, unanswered.as_millis() as u32)?;
    Ok(())
}
