//! Any frame, by smoltcp's formats.

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, UdpPacket,
};

use super::checksum::{self, address_sum};
use super::{Arrival, Ecn, NotOurs, Offload, Outline};
use crate::wire::Addresses;

pub fn parse(frame: &[u8], offload: Offload) -> Result<Arrival<'_>, NotOurs> {
    // [W6] A port that completes checksums has left this one to hardware, which has not been on the way.
    let is_open = || Outline::of(frame).is_some_and(|outline| outline.is_open(frame));
    let offload = Offload {
        udp_received: offload.udp_received || is_open(),
        ..offload
    };
    let frame = EthernetFrame::new_checked(frame).map_err(|_| NotOurs::Malformed)?;
    match frame.ethertype() {
        EthernetProtocol::Ipv4 => parse_v4(frame.payload(), offload),
        EthernetProtocol::Ipv6 => parse_v6(frame.payload(), offload),
        _ => Err(NotOurs::Protocol),
    }
}

fn parse_v4(bytes: &[u8], offload: Offload) -> Result<Arrival<'_>, NotOurs> {
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

fn parse_v6(bytes: &[u8], offload: Offload) -> Result<Arrival<'_>, NotOurs> {
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
) -> Result<Arrival<'_>, NotOurs> {
    let udp = UdpPacket::new_checked(bytes).map_err(|_| NotOurs::Malformed)?;
    // RFC 8200, 8.1: no zero checksum on IPv6.
    let missing = source.is_ipv6() && udp.checksum() == 0;
    if !offload.udp_received && (missing || !is_right(&udp, bytes, source, destination)) {
        return Err(NotOurs::Checksum);
    }
    Ok(Arrival {
        addresses: Addresses {
            source: SocketAddr::new(source, udp.src_port()),
            destination: SocketAddr::new(destination, udp.dst_port()),
        },
        ecn,
        payload: udp.payload(),
    })
}

/// Whether its checksum is, or there is none.
fn is_right(udp: &UdpPacket<&[u8]>, bytes: &[u8], source: IpAddr, destination: IpAddr) -> bool {
    let sum = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => address_sum(&ip.octets()),
        IpAddr::V6(ip) => address_sum(&ip.octets()),
    };
    // It says how long it is, and has been found to be at least so long.
    let datagram = bytes.get(..usize::from(udp.len()));
    udp.checksum() == 0
        || datagram.is_some_and(|it| checksum::is_right(sum(source) + sum(destination), it))
}
