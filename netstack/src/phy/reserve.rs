//! Our UDP port, taken in the kernel.
//!
//! A port that only listens in ([`super::PacketPort`]) does not keep frames from the kernel, and even XDP
//! lets some through: fragments, and all that comes before it is attached. The kernel would answer them
//! with ICMP "port unreachable", and give them to any program that binds the port. So we bind it, and never
//! read: a filter drops all before it is queued, and dropping there says nothing to the sender
//! (net/ipv4/udp.c, `udp_queue_rcv_one_skb`; the kernel counts it in UdpInErrors).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use super::sys::{Fd, attach_filter, set_option};

/// Accepts no byte of anything.
const DROP: [libc::sock_filter; 1] = [libc::sock_filter {
    code: libc::BPF_RET as u16,
    jt: 0,
    jf: 0,
    k: 0,
}];

/// As long as this lives, the port is ours in this network namespace: only sockets of our own user that say so
/// ([`super::udp::Connected`]) can have it beside. Nobody had it before.
#[derive(Debug)]
pub struct Reserved(Fd);

impl Reserved {
    /// `EADDRINUSE` if somebody else has the port. Not needed twice in one namespace: several open
    /// ports share one.
    pub fn new(port: u16) -> io::Result<Reserved> {
        let reserved = match reserve_both(port) {
            // A kernel without IPv6.
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => reserve_ipv4(port)?,
            other => other?,
        };
        // After `bind`, which would not have minded others of our user's.
        set_option(&reserved.0, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1)?;
        Ok(reserved)
    }
}

fn reserve_both(port: u16) -> io::Result<Reserved> {
    let socket = deaf(AddressFamily::INET6)?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    bind(
        &socket,
        &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0),
    )?;
    Ok(Reserved(socket))
}

fn reserve_ipv4(port: u16) -> io::Result<Reserved> {
    let socket = deaf(AddressFamily::INET)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    Ok(Reserved(socket))
}

fn deaf(family: AddressFamily) -> io::Result<Fd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = Fd::from(socket_with(family, SocketType::DGRAM, flags, None)?);
    attach_filter(&socket, &DROP)?;
    if knows_joined() {
        // The kernel joins datagrams before a packet port sees them, and does not cut them up for us to drop them.
        let _ = set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, &1);
    }
    Ok(socket)
}

/// Whether packet sockets show datagrams that are joined: others lose them (include/linux/virtio_net.h, since 6.2).
fn knows_joined() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (next(), next()) >= (Some(6), Some(2))
}
