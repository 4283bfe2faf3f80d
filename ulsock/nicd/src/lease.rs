//! What a program with an engine of its own has of the NIC: a queue with a UDP port, and the routes that it was told.

use std::collections::HashMap;
use std::net::IpAddr;

use netstack::phy::Reserved;

use super::host::Route;

/// What a program has of the NIC.
pub struct Lease {
    pub udp: u16,
    interface: usize,
    pub address: IpAddr,
    /// By the host and the UDP port there.
    pub routes: HashMap<(usize, u16), u32>,
    /// How many there have been.
    pub count: u32,
    /// The port is nobody else's.
    _reserved: Reserved,
}

impl Lease {
    pub fn new(udp: u16, route: &Route, reserved: Reserved) -> Lease {
        Lease {
            udp,
            interface: route.interface,
            address: route.hop.source,
            routes: HashMap::new(),
            count: 0,
            _reserved: reserved,
        }
    }

    pub fn leads(&self, route: &Route) -> bool {
        (self.interface, self.address) == (route.interface, route.hop.source)
    }
}
