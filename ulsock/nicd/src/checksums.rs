//! `[W6]` Who computes the UDP checksums of an interface's frames, and who checks them: for `ulsock nicd status`.

use std::os::fd::AsFd;

use netstack::phy::Features;
use rustix::net::{AddressFamily, SocketType, socket};

use super::interface::{Interface, PortKind};

/// Of frames that are sent, and of frames that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksums {
    pub computed_by: &'static str,
    pub checked_by: &'static str,
}

impl Checksums {
    pub fn of(interface: &Interface) -> Checksums {
        let any = socket(AddressFamily::INET, SocketType::DGRAM, None);
        let features = any.map_or(Features::default(), |any| {
            Features::of(any.as_fd(), &interface.name)
        });
        Checksums::with(interface.kind(), features, interface.is_ipv6())
    }

    fn with(kind: PortKind, features: Features, is_ipv6: bool) -> Checksums {
        // IPv4 does without, where it would cost: the link has a CRC.
        let software = if is_ipv6 { "nicd" } else { "nobody" };
        let (sent, received) = match kind {
            PortKind::Packet => (features.checksums_sent, features.checksums_received),
            // Its frames pass by the part of the driver that asks the hardware.
            PortKind::Xdp => (false, false),
            PortKind::Ivshmem => (false, false),
        };
        Checksums {
            computed_by: if sent { "interface" } else { software },
            checked_by: if received { "interface" } else { "nicd" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(kind: PortKind, able: bool, is_ipv6: bool) -> [&'static str; 2] {
        let features = Features {
            checksums_sent: able,
            checksums_received: able,
            segments: able,
        };
        let found = Checksums::with(kind, features, is_ipv6);
        [found.computed_by, found.checked_by]
    }

    // [W6]
    #[test]
    fn the_interface_where_the_port_lets_it() {
        let interface = ["interface"; 2];
        assert_eq!(who(PortKind::Packet, true, false), interface);
        assert_eq!(who(PortKind::Packet, true, true), interface);
        assert_eq!(who(PortKind::Packet, false, false), ["nobody", "nicd"]);
        assert_eq!(who(PortKind::Packet, false, true), ["nicd", "nicd"]);
        assert_eq!(who(PortKind::Xdp, true, false), ["nobody", "nicd"]);
        assert_eq!(who(PortKind::Xdp, true, true), ["nicd", "nicd"]);
    }
}
