//! Ethernet, IP and UDP around a packet, by smoltcp's formats.

use core::net::{IpAddr, SocketAddr};

use smoltcp::phy::{Checksum, ChecksumCapabilities};
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress, IpProtocol,
    Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, UdpPacket, UdpRepr,
};

use super::Addresses;

/// Bytes of its header.
pub const ETHERNET: usize = 14;
const UDP: usize = 8;
const HOPS: u8 = 64;

/// [W6] Which checksums the port fills in and checks by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// UDP, when sending.
    pub udp_sent: bool,
    /// UDP, when receiving: what arrives has been checked.
    pub udp_received: bool,
}

/// ECN's two bits of the IP header (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    #[default]
    NotCapable,
    Capable,
    /// ECT(1), which we do not send.
    Other,
    Congested,
}

impl Ecn {
    fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Other,
            2 => Ecn::Capable,
            _ => Ecn::Congested,
        }
    }

    fn bits(self) -> u8 {
        match self {
            Ecn::NotCapable => 0,
            Ecn::Other => 1,
            Ecn::Capable => 2,
            Ecn::Congested => 3,
        }
    }
}

/// The way to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub source: [u8; 6],
    pub destination: [u8; 6],
    pub addresses: Addresses,
}

/// Bytes before the packet in a frame of this route.
pub fn overhead(addresses: &Addresses) -> usize {
    ETHERNET + ip_header(addresses.source.ip()) + UDP
}

fn ip_header(ip: IpAddr) -> usize {
    if ip.is_ipv4() {
        20
    } else {
        40
    }
}

/// Why a frame is not for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// No UDP over IP over Ethernet.
    Protocol,
    Malformed,
    /// A fragment of a datagram.
    Fragment,
    Checksum,
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub addresses: Addresses,
    pub ecn: Ecn,
    pub payload: &'a [u8],
}

/// Reads a frame. The addresses are what the frame says.
pub fn parse(frame: &[u8], offload: Offload) -> Result<Datagram<'_>, NotOurs> {
    let frame = EthernetFrame::new_checked(frame).map_err(|_| NotOurs::Malformed)?;
    match frame.ethertype() {
        EthernetProtocol::Ipv4 => parse_v4(frame.payload(), offload),
        EthernetProtocol::Ipv6 => parse_v6(frame.payload(), offload),
        _ => Err(NotOurs::Protocol),
    }
}

fn parse_v4(bytes: &[u8], offload: Offload) -> Result<Datagram<'_>, NotOurs> {
    let ip = Ipv4Packet::new_checked(bytes).map_err(|_| NotOurs::Malformed)?;
    if ip.version() != 4 {
        return Err(NotOurs::Malformed);
    }
    if ip.next_header() != IpProtocol::Udp {
        return Err(NotOurs::Protocol);
    }
    if ip.more_frags() || ip.frag_offset() != 0 {
        return Err(NotOurs::Fragment);
    }
    if !ip.verify_checksum() {
        return Err(NotOurs::Checksum);
    }
    let (source, destination) = (ip.src_addr(), ip.dst_addr());
    let ecn = Ecn::from_bits(ip.ecn());
    parse_udp(
        ip.payload(),
        source.into(),
        destination.into(),
        ecn,
        offload,
    )
}

fn parse_v6(bytes: &[u8], offload: Offload) -> Result<Datagram<'_>, NotOurs> {
    let ip = Ipv6Packet::new_checked(bytes).map_err(|_| NotOurs::Malformed)?;
    if ip.version() != 6 {
        return Err(NotOurs::Malformed);
    }
    if ip.next_header() != IpProtocol::Udp {
        return Err(NotOurs::Protocol);
    }
    let (source, destination) = (ip.src_addr(), ip.dst_addr());
    let ecn = Ecn::from_bits(ip.traffic_class());
    parse_udp(
        ip.payload(),
        source.into(),
        destination.into(),
        ecn,
        offload,
    )
}

fn parse_udp(
    bytes: &[u8],
    source: IpAddr,
    destination: IpAddr,
    ecn: Ecn,
    offload: Offload,
) -> Result<Datagram<'_>, NotOurs> {
    let udp = UdpPacket::new_checked(bytes).map_err(|_| NotOurs::Malformed)?;
    let (from, to): (IpAddress, IpAddress) = (source.into(), destination.into());
    // RFC 8200, 8.1: no zero checksum on IPv6.
    let missing = source.is_ipv6() && udp.checksum() == 0;
    if !offload.udp_received && (missing || !udp.verify_checksum(&from, &to)) {
        return Err(NotOurs::Checksum);
    }
    Ok(Datagram {
        addresses: Addresses {
            source: SocketAddr::new(source, udp.src_port()),
            destination: SocketAddr::new(destination, udp.dst_port()),
        },
        ecn,
        payload: udp.payload(),
    })
}

/// Writes the headers before a packet of `length` bytes that already stands at `overhead` in
/// `frame`. `None`, and nothing written, if it does not fit into the frame or a datagram, or the
/// addresses are of two families.
pub fn emit(
    frame: &mut [u8],
    route: &Route,
    ecn: Ecn,
    length: usize,
    offload: Offload,
) -> Option<usize> {
    let Addresses {
        source,
        destination,
    } = route.addresses;
    let total = overhead(&route.addresses) + length;
    // Only IPv4 counts its own header.
    let counted = if source.is_ipv4() {
        ETHERNET
    } else {
        ETHERNET + 40
    };
    if total - counted > usize::from(u16::MAX) || source.is_ipv4() != destination.is_ipv4() {
        return None;
    }
    let frame = frame.get_mut(..total)?;
    let mut ethernet = EthernetFrame::new_unchecked(frame);
    EthernetRepr {
        src_addr: EthernetAddress(route.source),
        dst_addr: EthernetAddress(route.destination),
        ethertype: if source.is_ipv4() {
            EthernetProtocol::Ipv4
        } else {
            EthernetProtocol::Ipv6
        },
    }
    .emit(&mut ethernet);
    let bytes = ethernet.payload_mut();
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut ip = Ipv4Packet::new_unchecked(bytes);
            Ipv4Repr {
                src_addr: from,
                dst_addr: to,
                next_header: IpProtocol::Udp,
                payload_len: UDP + length,
                hop_limit: HOPS,
            }
            .emit(&mut ip, &ChecksumCapabilities::ignored());
            ip.set_ecn(ecn.bits());
            ip.fill_checksum();
            emit_udp(ip.payload_mut(), &route.addresses, length, Checksum::None);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut ip = Ipv6Packet::new_unchecked(bytes);
            Ipv6Repr {
                src_addr: from,
                dst_addr: to,
                next_header: IpProtocol::Udp,
                payload_len: UDP + length,
                hop_limit: HOPS,
            }
            .emit(&mut ip);
            ip.set_traffic_class(ecn.bits());
            let ours = if offload.udp_sent {
                Checksum::None
            } else {
                Checksum::Tx
            };
            emit_udp(ip.payload_mut(), &route.addresses, length, ours);
        }
        _ => return None,
    }
    Some(total)
}

fn emit_udp(bytes: &mut [u8], addresses: &Addresses, length: usize, checksum: Checksum) {
    let mut udp = UdpPacket::new_unchecked(bytes);
    let mut capabilities = ChecksumCapabilities::ignored();
    capabilities.udp = checksum;
    UdpRepr {
        src_port: addresses.source.port(),
        dst_port: addresses.destination.port(),
    }
    .emit(
        &mut udp,
        &addresses.source.ip().into(),
        &addresses.destination.ip().into(),
        length,
        // The packet stands there already.
        |_| {},
        &capabilities,
    );
}
