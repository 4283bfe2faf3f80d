//! Ethernet, IP and UDP around a packet.

mod any;
mod checksum;
mod outline;
mod plain;
mod route;
mod segments;

use core::net::IpAddr;

pub use outline::{LONGEST, Outline};
pub use plain::sum;
pub use route::Route;
pub use segments::{Joined, Segments};

use super::Addresses;

/// Bytes of its header.
pub const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

/// `[W6]` Which checksums the port fills in and checks by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// UDP, when sending: the field then has the sum of the pseudo header, which the port completes.
    pub udp_sent: bool,
    /// UDP, when receiving: what arrives has been checked.
    pub udp_received: bool,
}

/// ECN's two bits of the IP header (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    #[default]
    NotCapable = 0,
    /// ECT(1), which we do not send.
    Other = 1,
    Capable = 2,
    Congested = 3,
}

impl Ecn {
    #[inline]
    pub fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Other,
            2 => Ecn::Capable,
            _ => Ecn::Congested,
        }
    }

    #[inline]
    fn bits(self) -> u8 {
        self as u8
    }
}

/// Bytes before the packet in a frame of this route.
#[inline]
pub fn overhead(addresses: &Addresses) -> usize {
    let ip = match addresses.source.ip() {
        IpAddr::V4(_) => IPV4,
        IpAddr::V6(_) => IPV6,
    };
    ETHERNET + ip + UDP
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

/// A datagram as it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    pub addresses: Addresses,
    pub ecn: Ecn,
    pub payload: &'a [u8],
}

/// Reads a frame. The addresses are what the frame says.
#[inline]
pub fn parse(frame: &[u8], offload: Offload) -> Result<Arrival<'_>, NotOurs> {
    match plain::parse(frame, offload) {
        Some(datagram) => Ok(datagram),
        None => any::parse(frame, offload),
    }
}
