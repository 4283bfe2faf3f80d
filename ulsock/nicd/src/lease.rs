//! What a program with an engine of its own has of the host: a UDP port, with a queue of the NIC or sockets for it, and
//! the routes that it was told.

use std::collections::HashMap;
use std::net::IpAddr;

use netstack::phy::Reserved;

use super::host::Route;
use super::interface::PortKind;
use super::shares::Held;

/// How the frames of an engine in a program get to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// A queue of the NIC: whoever has it can send any frame.
    Queue,
    /// UDP sockets, one for each route: whoever has them can do what any program can.
    Sockets,
}

impl LeaseKind {
    /// The same by the names of `--port`.
    pub fn port(self) -> PortKind {
        match self {
            LeaseKind::Queue => PortKind::Packet,
            LeaseKind::Sockets => PortKind::Udp,
        }
    }
}

pub struct Lease {
    pub udp: u16,
    pub kind: LeaseKind,
    pub interface: usize,
    pub address: IpAddr,
    /// By the host and the UDP port there.
    pub routes: HashMap<(usize, u16), u32>,
    /// How many there have been.
    pub count: u32,
    /// The port is nobody else's.
    _reserved: Reserved,
    /// Of its user's shares.
    _held: [Held; 2],
}

/// A UDP port that nobody has, and what it takes of its user's shares.
pub struct FreePort {
    pub udp: u16,
    pub reserved: Reserved,
    pub held: [Held; 2],
}

impl Lease {
    pub fn new(kind: LeaseKind, port: FreePort, route: &Route) -> Lease {
        Lease {
            udp: port.udp,
            kind,
            interface: route.interface,
            address: route.hop.source,
            routes: HashMap::new(),
            count: 0,
            _reserved: port.reserved,
            _held: port.held,
        }
    }

    pub fn leads(&self, route: &Route) -> bool {
        (self.interface, self.address) == (route.interface, route.hop.source)
    }
}
