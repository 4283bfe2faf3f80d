//! The headers of frames to one neighbour: written once, with lengths and checksums to be filled in.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet,
    Ipv4Repr, Ipv6Packet, Ipv6Repr, UdpPacket,
};

use super::checksum::{self, address_sum, fold, pseudo_sum};
use super::plain;
use super::{ETHERNET, Ecn, IPV4, IPV6, Offload, UDP};
use crate::wire::Addresses;

const HOPS: u8 = 64;

/// The way to a neighbour.
#[derive(Clone, Debug)]
pub struct Route(Headers);

#[derive(Clone, Debug)]
enum Headers {
    V4(V4),
    V6(V6),
}

impl Route {
    /// Between these Ethernet addresses; `None` if the others are of two families.
    pub fn new(source: [u8; 6], destination: [u8; 6], addresses: &Addresses) -> Option<Route> {
        let ends = (addresses.source.ip(), addresses.destination.ip());
        let mut headers = match ends {
            (IpAddr::V4(from), IpAddr::V4(to)) => Headers::V4(V4::new(from, to)),
            (IpAddr::V6(from), IpAddr::V6(to)) => Headers::V6(V6::new(from, to)),
            _ => return None,
        };
        let (bytes, ethertype) = match &mut headers {
            Headers::V4(v4) => (&mut v4.bytes[..], EthernetProtocol::Ipv4),
            Headers::V6(v6) => (&mut v6.bytes[..], EthernetProtocol::Ipv6),
        };
        let ethernet = EthernetRepr {
            src_addr: EthernetAddress(source),
            dst_addr: EthernetAddress(destination),
            ethertype,
        };
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut *bytes));
        let udp = bytes.len() - UDP;
        let mut udp = UdpPacket::new_unchecked(&mut bytes[udp..]);
        udp.set_src_port(addresses.source.port());
        udp.set_dst_port(addresses.destination.port());
        Some(Route(headers))
    }

    #[inline]
    pub fn is_v4(&self) -> bool {
        matches!(self.0, Headers::V4(_))
    }

    /// Bytes before the packet in a frame.
    #[inline]
    pub fn overhead(&self) -> usize {
        match &self.0 {
            Headers::V4(v4) => v4.bytes.len(),
            Headers::V6(v6) => v6.bytes.len(),
        }
    }

    /// Writes the headers before a packet of `length` bytes that already stands behind them in
    /// `frame`; how long all is. `None`, and nothing written, if it does not fit into the frame or a
    /// datagram.
    #[inline]
    pub fn emit(
        &self,
        frame: &mut [u8],
        ecn: Ecn,
        length: usize,
        offload: Offload,
    ) -> Option<usize> {
        match &self.0 {
            Headers::V4(v4) => v4.emit(frame, ecn, length, offload),
            Headers::V6(v6) => v6.emit(frame, ecn, length, offload),
        }
    }
}

#[derive(Clone, Debug)]
struct V4 {
    /// Lengths and checksums are zero.
    bytes: [u8; plain::HEADERS],
    /// The sum of the IP header as it is here.
    sum: u16,
    addresses: u64,
}

impl V4 {
    fn new(src_addr: Ipv4Addr, dst_addr: Ipv4Addr) -> V4 {
        let mut bytes = [0; plain::HEADERS];
        let mut ip = Ipv4Packet::new_unchecked(&mut bytes[ETHERNET..]);
        let repr = Ipv4Repr {
            src_addr,
            dst_addr,
            next_header: IpProtocol::Udp,
            payload_len: 0,
            hop_limit: HOPS,
        };
        repr.emit(&mut ip, &ChecksumCapabilities::ignored());
        ip.set_total_len(0);
        let header = bytes[ETHERNET..].first_chunk::<IPV4>();
        let sum = header.map_or(0, plain::sum);
        let addresses = address_sum(&bytes[ETHERNET + 12..ETHERNET + 20]);
        V4 {
            bytes,
            sum,
            addresses,
        }
    }

    /// `[W6]` UDP has no checksum here, unless the port completes it.
    #[inline]
    fn emit(&self, frame: &mut [u8], ecn: Ecn, length: usize, offload: Offload) -> Option<usize> {
        let total = u16::try_from(length)
            .ok()?
            .checked_add((IPV4 + UDP) as u16)?;
        let size = ETHERNET + usize::from(total);
        let headers = frame.get_mut(..size)?.first_chunk_mut()?;
        *headers = self.bytes;
        let sum = u64::from(self.sum) + u64::from(total) + u64::from(ecn.bits());
        headers[15] = ecn.bits();
        headers[16..18].copy_from_slice(&total.to_be_bytes());
        headers[24..26].copy_from_slice(&(!fold(sum)).to_be_bytes());
        let counted = total - IPV4 as u16;
        headers[38..40].copy_from_slice(&counted.to_be_bytes());
        if offload.udp_sent {
            let sum = pseudo_sum(self.addresses, counted);
            headers[40..42].copy_from_slice(&sum.to_be_bytes());
        }
        Some(size)
    }
}

#[derive(Clone, Debug)]
struct V6 {
    /// Lengths and checksum are zero.
    bytes: [u8; ETHERNET + IPV6 + UDP],
    addresses: u64,
}

impl V6 {
    fn new(from: Ipv6Addr, to: Ipv6Addr) -> V6 {
        let mut bytes = [0; ETHERNET + IPV6 + UDP];
        let repr = Ipv6Repr {
            src_addr: from,
            dst_addr: to,
            next_header: IpProtocol::Udp,
            payload_len: 0,
            hop_limit: HOPS,
        };
        repr.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[ETHERNET..]));
        let addresses = address_sum(&bytes[ETHERNET + 8..ETHERNET + 40]);
        V6 { bytes, addresses }
    }

    fn emit(&self, frame: &mut [u8], ecn: Ecn, length: usize, offload: Offload) -> Option<usize> {
        // IP counts what UDP counts.
        let counted = u16::try_from(length).ok()?.checked_add(UDP as u16)?;
        let size = self.bytes.len() + length;
        let frame = frame.get_mut(..size)?;
        *frame.first_chunk_mut()? = self.bytes;
        let (_, bytes) = frame.split_at_mut(ETHERNET);
        let mut ip = Ipv6Packet::new_unchecked(bytes);
        ip.set_traffic_class(ecn.bits());
        ip.set_payload_len(counted);
        let mut udp = UdpPacket::new_unchecked(ip.payload_mut());
        udp.set_len(counted);
        // [W6]
        match offload.udp_sent {
            true => udp.set_checksum(pseudo_sum(self.addresses, counted)),
            false => checksum::fill(self.addresses, ip.payload_mut()),
        }
        Some(size)
    }
}
