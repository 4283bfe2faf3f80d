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
        let features = match kind {
            PortKind::Packet | PortKind::Udp => features(&interface.name),
            // What the interface does for the kernel it need not do for such a socket: the port has found out. Nobody tells
            // it of frames that come whether they were checked.
            PortKind::Xdp => Features {
                checksums_sent: interface.port.capabilities().offload.udp_sent,
                ..Features::default()
            },
            // No hardware is on the way.
            PortKind::Ivshmem => Features::default(),
        };
        Checksums::with(kind, features, interface.is_ipv6(), engine)
    }

    /// By a port of this kind, for which the interface does so much.
    fn with(kind: PortKind, features: Features, is_ipv6: bool, engine: &'static str) -> Checksums {
        let (software, checker) = match kind {
            PortKind::Udp => ("kernel", "kernel"),
            // IPv4 does without, where it would cost: the link has a CRC.
            _ if is_ipv6 => (engine, engine),
            _ => ("nobody", engine),
        };
        Checksums {
            computed_by: if features.checksums_sent {
                "interface"
            } else {
                software
            },
            checked_by: if features.checksums_received {
                "interface"
            } else {
                checker
            },
        }
    }
}

fn features(interface: &str) -> Features {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None);
    any.map_or(Features::default(), |any| {
        Features::of(any.as_fd(), interface)
    })
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
        assert_eq!(who(PortKind::Xdp, false, false), ["nobody", "nicd"]);
        assert_eq!(who(PortKind::Xdp, false, true), ["nicd", "nicd"]);
    }
}
