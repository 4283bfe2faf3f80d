//! The way to a peer, as the kernel would go: its routes and neighbours, by rtnetlink.
//!
//! What is not plain Ethernet to the next hop is not for us, and the reason is told. We never resolve an
//! address ourselves: the kernel does, when asked to, and [`Watch`] tells when it has.

pub(super) mod message;
pub(super) mod netlink;
mod watch;

use std::net::IpAddr;

use rustix::io::{self, Errno};

use message::{Attributes, NetlinkRequest, address, u16_at, u32_at};
use netlink::Netlink;
pub use watch::{Change, Watch};

/// Lengths of struct rtmsg, ndmsg and ifinfomsg (linux/rtnetlink.h, linux/neighbour.h).
const ROUTE: usize = 12;
const NEIGHBOUR: usize = 12;
const LINK: usize = 16;
/// In RTA_METRICS.
const METRIC_MTU: u16 = 2;

/// The next hop to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The number of the interface.
    pub interface: u32,
    /// Our own address, hardware and IP.
    pub hardware: [u8; 6],
    pub source: IpAddr,
    /// Whose hardware address frames get: the peer itself, or a router.
    pub next: IpAddr,
    /// Bytes of IP, of the interface and of the route. What lies behind may take less.
    pub mtu: usize,
}

/// Why a peer cannot be reached by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The kernel has no way either, and says why.
    Unreachable(Errno),
    /// It is this host.
    Local,
    /// It is not one host.
    NotOneHost,
    /// Packets are wrapped into others.
    Tunnelled,
    /// The interface is not Ethernet, but of this kind (linux/if_arp.h).
    NotEthernet(u16),
    /// The interface asks nobody for hardware addresses.
    NoNeighbours,
    Down,
    /// The answer could not be got, or not be understood.
    Failed(Errno),
}

impl core::fmt::Display for Unfit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Unfit::Unreachable(errno) => write!(f, "no route: {errno}"),
            Unfit::Local => f.write_str("the address is this host's"),
            Unfit::NotOneHost => f.write_str("the address is not one host's"),
            Unfit::Tunnelled => f.write_str("the route leads through a tunnel"),
            Unfit::NotEthernet(kind) => write!(f, "the interface is not Ethernet (kind {kind})"),
            Unfit::NoNeighbours => f.write_str("the interface resolves no addresses"),
            Unfit::Down => f.write_str("the interface is down"),
            Unfit::Failed(errno) => write!(f, "the kernel could not be asked: {errno}"),
        }
    }
}

/// What the kernel knows about the hardware address of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Heard of lately, or set by hand.
    Fresh([u8; 6]),
    /// Good to use, but the kernel should be asked to look: it does not see our traffic.
    Stale([u8; 6]),
    /// Nothing yet.
    Unknown,
    /// It has asked in vain.
    Failed,
}

impl Neighbour {
    pub fn address(self) -> Option<[u8; 6]> {
        match self {
            Neighbour::Fresh(address) | Neighbour::Stale(address) => Some(address),
            Neighbour::Unknown | Neighbour::Failed => None,
        }
    }
}

/// Asks the kernel, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Routes(Netlink);

impl Routes {
    pub fn open() -> io::Result<Routes> {
        Netlink::open(0).map(Routes)
    }

    /// The way to a peer for frames of our own; from this address of ours, if one is given.
    pub fn find(&mut self, peer: IpAddr, source: Option<IpAddr>) -> Result<Hop, Unfit> {
        let (path, link) = self.look_up(peer, source)?;
        if path.is_wrapped {
            return Err(Unfit::Tunnelled);
        }
        let Some(hardware) = link.hardware.filter(|_| link.kind == libc::ARPHRD_ETHER) else {
            return Err(Unfit::NotEthernet(link.kind));
        };
        if link.flags & libc::IFF_NOARP as u32 != 0 {
            return Err(Unfit::NoNeighbours);
        }
        hop(peer, source, hardware, &path, &link)
    }

    /// The way to a peer for sockets of the kernel, which knows the hardware addresses: any that there is.
    pub fn find_any(&mut self, peer: IpAddr, source: Option<IpAddr>) -> Result<Hop, Unfit> {
        let (path, link) = self.look_up(peer, source)?;
        hop(peer, source, [0; 6], &path, &link)
    }

    fn look_up(
        &mut self,
        peer: IpAddr,
        source: Option<IpAddr>,
    ) -> Result<(RoutePath, InterfaceLink), Unfit> {
        let path = self.path(peer, source)?;
        let link = self.link(path.interface).map_err(Unfit::Failed)?;
        let link = link.ok_or(Unfit::Failed(Errno::PROTO))?;
        match link.flags & libc::IFF_UP as u32 {
            0 => Err(Unfit::Down),
            _ => Ok((path, link)),
        }
    }

    fn path(&mut self, peer: IpAddr, source: Option<IpAddr>) -> Result<RoutePath, Unfit> {
        if peer.is_multicast() || peer.is_unspecified() {
            return Err(Unfit::NotOneHost);
        }
        let mut fixed = [0; ROUTE];
        let bits = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
        (fixed[0], fixed[1]) = (family(peer), bits(peer));
        fixed[2] = source.map_or(0, bits);
        let request = NetlinkRequest::new(libc::RTM_GETROUTE, 0, &fixed);
        let mut request = request.with_address(libc::RTA_DST, peer);
        if let Some(source) = source {
            request = request.with_address(libc::RTA_SRC, source);
        }
        let path = self.0.ask(request, |message| {
            let kind = message.body.get(7).copied();
            RoutePath::read(kind?, message.attributes(ROUTE))
        });
        match path {
            Ok(Some(path)) => path,
            Ok(None) => Err(Unfit::Failed(Errno::PROTO)),
            Err(errno) => Err(Unfit::Unreachable(errno)),
        }
    }

    fn link(&mut self, interface: u32) -> io::Result<Option<InterfaceLink>> {
        let mut fixed = [0; LINK];
        fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
        let request = NetlinkRequest::new(libc::RTM_GETLINK, 0, &fixed);
        self.0.ask(request, |message| {
            let attributes = message.attributes(LINK);
            Some(InterfaceLink {
                kind: u16_at(message.body, 2)?,
                flags: u32_at(message.body, 8)?,
                mtu: attributes.number(libc::IFLA_MTU)?,
                hardware: hardware(attributes.find(libc::IFLA_ADDRESS)),
            })
        })
    }

    /// What is known about the next hop.
    pub fn neighbour(&mut self, hop: &Hop) -> io::Result<Neighbour> {
        let request = NetlinkRequest::new(libc::RTM_GETNEIGH, 0, &about(hop, 0));
        let request = request.with_address(libc::NDA_DST, hop.next);
        let found = self.0.ask(request, |message| {
            let state = u16_at(message.body, 8).unwrap_or(0);
            let address = message.attributes(NEIGHBOUR).find(libc::NDA_LLADDR);
            judge(state, hardware(address))
        });
        match found {
            Err(Errno::NOENT) => Ok(Neighbour::Unknown),
            other => other,
        }
    }

    /// Has the kernel resolve the next hop, or look again whether it is there. Needs CAP_NET_ADMIN.
    pub fn resolve(&mut self, hop: &Hop) -> io::Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_ACK;
        let request = NetlinkRequest::new(libc::RTM_NEWNEIGH, flags, &about(hop, libc::NTF_USE));
        let request = request.with_address(libc::NDA_DST, hop.next);
        self.0.ask(request, |_| ())
    }
}

fn hop(
    peer: IpAddr,
    source: Option<IpAddr>,
    hardware: [u8; 6],
    path: &RoutePath,
    link: &InterfaceLink,
) -> Result<Hop, Unfit> {
    let source = source.or(path.source);
    let mtu = path.mtu.filter(|&mtu| mtu != 0);
    Ok(Hop {
        interface: path.interface,
        hardware,
        source: source.ok_or(Unfit::Failed(Errno::ADDRNOTAVAIL))?,
        next: path.gateway.unwrap_or(peer),
        mtu: mtu.unwrap_or(link.mtu).min(link.mtu) as usize,
    })
}

/// What a route says.
struct RoutePath {
    interface: u32,
    source: Option<IpAddr>,
    gateway: Option<IpAddr>,
    /// Packets are wrapped into others.
    is_wrapped: bool,
    mtu: Option<u32>,
}

impl RoutePath {
    fn read(kind: u8, attributes: Attributes<'_>) -> Option<Result<RoutePath, Unfit>> {
        match kind {
            libc::RTN_UNICAST => {}
            libc::RTN_LOCAL => return Some(Err(Unfit::Local)),
            _ => return Some(Err(Unfit::NotOneHost)),
        }
        // A router of the other family: its family in front of its address.
        let via = attributes.find(libc::RTA_VIA).and_then(|via| via.get(2..));
        let gateway = attributes.find(libc::RTA_GATEWAY).or(via);
        let metrics = attributes.find(libc::RTA_METRICS).map(Attributes);
        Some(Ok(RoutePath {
            interface: attributes.number(libc::RTA_OIF)?,
            source: attributes.find(libc::RTA_PREFSRC).and_then(address),
            gateway: gateway.and_then(address),
            is_wrapped: attributes.find(libc::RTA_ENCAP_TYPE).is_some(),
            mtu: metrics.and_then(|metrics| metrics.number(METRIC_MTU)),
        }))
    }
}

/// What an interface says.
struct InterfaceLink {
    kind: u16,
    flags: u32,
    mtu: u32,
    hardware: Option<[u8; 6]>,
}

fn family(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn hardware(bytes: Option<&[u8]>) -> Option<[u8; 6]> {
    bytes?.try_into().ok()
}

/// struct ndmsg for a next hop.
fn about(hop: &Hop, flags: u8) -> [u8; NEIGHBOUR] {
    let mut fixed = [0; NEIGHBOUR];
    fixed[0] = family(hop.next);
    fixed[4..8].copy_from_slice(&hop.interface.to_ne_bytes());
    fixed[10] = flags;
    fixed
}

fn judge(state: u16, address: Option<[u8; 6]>) -> Neighbour {
    const FRESH: u16 = libc::NUD_REACHABLE | libc::NUD_PERMANENT | libc::NUD_NOARP;
    const STALE: u16 = libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE;
    match address {
        Some(address) if state & FRESH != 0 => Neighbour::Fresh(address),
        Some(address) if state & STALE != 0 => Neighbour::Stale(address),
        _ if state & libc::NUD_FAILED != 0 => Neighbour::Failed,
        _ => Neighbour::Unknown,
    }
}
