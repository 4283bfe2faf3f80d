//! A UDP socket that is connected to one peer: opened here, by whoever may have the UDP port, and used by
//! the port of the same process or of another one ([`super::UdpPort::add`]), which needs no privilege.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{self, Errno};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, getpeername, getsockname, ipproto,
    socket_with, sockopt,
};

use super::filter::only_from;
use crate::phy::sys::{Fd, attach_filter, option, set_option};
use crate::wire::Addresses;

/// Bytes that may wait to be received, and to be sent. The kernel's default holds some hundred datagrams.
const RECEIVE_BUFFER: usize = 1 << 20;
const SEND_BUFFER: usize = 1 << 20;

/// What one peer's datagrams come by, and ours leave by.
#[derive(Debug)]
pub struct Connected {
    socket: Fd,
    mtu: usize,
}

impl Connected {
    /// Opens it in the network namespace of the calling thread. Who opens a socket for another process must
    /// hold the port itself ([`crate::phy::Reserved`]): only sockets of one user can share it then, and who
    /// has had one of them before cannot receive what is meant for the next.
    ///
    /// Nothing of anybody else is queued, also before it is connected.
    pub fn open(ends: &Addresses) -> io::Result<Connected> {
        let family = match ends.source {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = Fd::from(socket_with(
            family,
            SocketType::DGRAM,
            flags,
            Some(ipproto::UDP),
        )?);
        attach_filter(&socket, &only_from(ends.destination))?;
        set_up(&socket, family)?;
        bind(&socket, &ends.source)?;
        connect(&socket, &ends.destination)?;
        let mtu = mtu(&socket, family)?;
        Ok(Connected { socket, mtu })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Bytes of IP that the route takes, as far as the kernel knows.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// For a port in this process.
    pub fn into_fd(self) -> OwnedFd {
        self.socket.into_owned()
    }
}

fn set_up(socket: &Fd, family: AddressFamily) -> io::Result<()> {
    // Several peers, one port of ours; and nobody else's sockets: the kernel wants the same user.
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1)?;
    sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER))?;
    sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER))?;
    // The link looks for the path's MTU by itself (docs/link.md, "Packet size"): nothing is cut on the way,
    // and nobody's ICMP makes our datagrams smaller.
    if family == AddressFamily::INET {
        let probe = libc::IP_PMTUDISC_PROBE;
        set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &probe)?;
        set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, &1)?;
    } else {
        let probe = libc::IPV6_PMTUDISC_PROBE;
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1)?;
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &probe)?;
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &1)?;
    }
    // A kernel that does not know it hands out one datagram at a time.
    let _ = set_option(socket, libc::SOL_UDP, libc::UDP_GRO, &1);
    Ok(())
}

fn mtu(socket: &Fd, family: AddressFamily) -> io::Result<usize> {
    let mtu = match family {
        AddressFamily::INET => option(socket, libc::IPPROTO_IP, libc::IP_MTU, 0)?,
        _ => option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU, 0)?,
    };
    usize::try_from(mtu).map_err(|_| Errno::INVAL)
}

/// The two ends of a socket that another process has opened, and its route's MTU; `EINVAL` if it is no UDP
/// socket, `ENOTCONN` if it is not connected.
pub fn check(socket: &Fd) -> io::Result<(Addresses, usize)> {
    let family = sockopt::socket_domain(socket)?;
    let is_udp = sockopt::socket_type(socket)? == SocketType::DGRAM
        && sockopt::socket_protocol(socket)? == Some(ipproto::UDP);
    if !is_udp || ![AddressFamily::INET, AddressFamily::INET6].contains(&family) {
        return Err(Errno::INVAL);
    }
    let end = |address: rustix::net::SocketAddrAny| SocketAddr::try_from(address);
    let ends = Addresses {
        source: end(getsockname(socket)?)?,
        destination: end(getpeername(socket)?.ok_or(Errno::NOTCONN)?)?,
    };
    // IPv4 by a socket of IPv6 is not what the frames say.
    let is_plain = |end: &SocketAddr| end.ip() == end.ip().to_canonical() && end.port() != 0;
    if !is_plain(&ends.source) || !is_plain(&ends.destination) {
        return Err(Errno::INVAL);
    }
    Ok((ends, mtu(socket, family)?))
}

/// ECN's bits of what is sent from now on.
pub fn mark(socket: &Fd, is_v4: bool, service: u8) {
    let (level, name) = match is_v4 {
        true => (libc::IPPROTO_IP, libc::IP_TOS),
        false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    let _ = set_option(socket, level, name, &i32::from(service));
}

/// Datagrams that there was no room for, of all time.
pub fn drops(socket: &Fd) -> u32 {
    const DROPS: usize = 8;
    let none = [0u32; DROPS + 1];
    let found = option(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, none);
    found.map_or(0, |numbers| numbers[DROPS])
}
