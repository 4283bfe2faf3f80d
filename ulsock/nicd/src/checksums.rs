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
        Checksums::by(interface, interface.kind(), "nicd")
    }

    /// Of the frames of an engine in a program.
    pub fn of_engine(interface: &Interface, kind: PortKind) -> Checksums {
        Checksums::by(interface, kind, "program")
    }

    fn by(interface: &Interface, kind: PortKind, engine: &'static str) -> Checksums {
        let any = socket(AddressFamily::INET, SocketType::DGRAM, None);
        let features = any.map_or(Features::default(), |any| {
            Features::of(any.as_fd(), &interface.name)
        });
        Checksums::with(kind, features, interface.is_ipv6(), engine)
    }

    fn with(kind: PortKind, features: Features, is_ipv6: bool, engine: &'static str) -> Checksums {
        let (software, checker) = match kind {
            PortKind::Udp => ("kernel", "kernel"),
            // IPv4 does without, where it would cost: the link has a CRC.
            _ if is_ipv6 => (engine, engine),
            _ => ("nobody", engine),
        };
        let (sent, received) = match kind {
            PortKind::Packet | PortKind::Udp => {
                (features.checksums_sent, features.checksums_received)
            }
            // Its frames pass by the part of the driver that asks the hardware.
            PortKind::Xdp => (false, false),
            PortKind::Ivshmem => (false, false),
        };
        Checksums {
            computed_by: if sent { "interface" } else { software },
            checked_by: if received { "interface" } else { checker },
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
        let found = Checksums::with(kind, features, is_ipv6, "nicd");
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
        assert_eq!(who(PortKind::Udp, true, false), interface);
        assert_eq!(who(PortKind::Udp, false, false), ["kernel"; 2]);
        assert_eq!(who(PortKind::Udp, false, true), ["kernel"; 2]);
        assert_eq!(who(PortKind::Xdp, true, false), ["nobody", "nicd"]);
        assert_eq!(who(PortKind::Xdp, true, true), ["nicd", "nicd"]);
    }
}
