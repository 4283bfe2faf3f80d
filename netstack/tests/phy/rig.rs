//! Two ends of a network, with each kind of port.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netstack::phy::udp::Connected;
use netstack::phy::xdp::{self, Mode, Steering};
use netstack::phy::{
    Conditions, Impaired, Interface, Ivshmem, PacketPort, Port, Reserved, Sim, UdpPort, Wanted,
    Xdp, ivshmem, packet,
};

use netstack::wire::Addresses;

use crate::frames::{FROM, Family, PORT, address};
use crate::namespace::{INTERFACE, Namespace, World};

pub type AnyPort = Box<dyn Port + Send>;

/// A port at each of two hosts.
pub struct Ends {
    pub ports: [AnyPort; 2],
    /// `None`: there is no kernel between them.
    pub world: Option<World>,
    /// What keeps the kernels quiet.
    pub reserved: Vec<Reserved>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sim,
    Packet,
    /// An impaired port without impairments.
    Wrapped,
    Xdp,
    /// With the program in the driver.
    XdpNative,
    /// UDP sockets of the kernel.
    Udp,
    /// Two ports of one machine; only where there is a device (`tests/vm`).
    Ivshmem,
}

impl Kind {
    /// Bytes of frames that are kept, at least, for a receiver that does not look.
    pub fn keeps(self) -> usize {
        match self {
            // The smallest ring of a lane has 32 KiB, some of them for its own words.
            Kind::Ivshmem => 24 << 10,
            _ => 1 << 20,
        }
    }

    /// How many frames a port that nobody reads takes in at least, and at most.
    pub fn receive_slots(self) -> Option<(u64, u64)> {
        match self {
            Kind::Sim => None,
            Kind::Packet | Kind::Wrapped | Kind::Xdp | Kind::XdpNative => Some((1024, 1024)),
            // As the socket's buffer is large, and the kernel counts.
            Kind::Udp => Some((1000, 2999)),
            // As the region is large, in frames of 200 bytes.
            Kind::Ivshmem => Some((32_768 / 208, 524_288 / 208)),
        }
    }

    /// Bytes of a long stream: emulated machines are slow.
    pub fn volume(self) -> u64 {
        match self {
            Kind::Ivshmem => 1_000_000,
            _ => 30_000_000,
        }
    }

    /// Frames of a test that sends as many as it can.
    pub fn frames(self) -> u64 {
        match self {
            Kind::Ivshmem => 4_000,
            _ => 30_000,
        }
    }

    /// Whether the kernel does not see the frames that are ours.
    pub fn keeps_from_kernel(self) -> bool {
        match self {
            Kind::Sim | Kind::Xdp | Kind::XdpNative | Kind::Ivshmem => true,
            Kind::Packet | Kind::Wrapped | Kind::Udp => false,
        }
    }

    /// Whether it cuts up what was joined on the way.
    pub fn takes_joined(self) -> bool {
        matches!(self, Kind::Packet | Kind::Wrapped)
    }

    pub fn ends(self, mtu: usize) -> Ends {
        if self == Kind::Sim {
            let (one, other) = Sim::pair(&Conditions::default(), mtu, 1);
            return Ends {
                ports: [Box::new(one), Box::new(other)],
                world: None,
                reserved: Vec::new(),
            };
        }
        if self == Kind::Ivshmem {
            return Ends {
                ports: [Box::new(ivshmem(1, mtu)), Box::new(ivshmem(2, mtu))],
                world: None,
                reserved: Vec::new(),
            };
        }
        let world = World::new(mtu, 1);
        let reserve = |host: &Namespace| host.within(|| Reserved::new(PORT).expect("the port"));
        let reserved = world.hosts.iter().map(reserve).collect();
        let ports = [self.open(&world, 1), self.open(&world, 2)];
        if self == Kind::Udp {
            introduce(&world);
        }
        Ends {
            ports,
            world: Some(world),
            reserved,
        }
    }

    /// A port at one of the hosts.
    pub fn open(self, world: &World, host: u8) -> AnyPort {
        world.hosts[usize::from(host) - 1].within(|| self.open_here(host))
    }

    fn open_here(self, host: u8) -> AnyPort {
        let interface = Interface::find(INTERFACE).expect("the interface");
        assert_eq!(interface.driver, "veth");
        let packet = || {
            let options = packet::PacketOptions::default();
            PacketPort::open(&interface, &wanted(host), options).expect("a packet port")
        };
        match self {
            Kind::Sim | Kind::Ivshmem => unreachable!("made in pairs"),
            Kind::Packet => Box::new(packet()),
            Kind::Wrapped => Box::new(Impaired::new(packet(), Conditions::default(), 1)),
            Kind::Xdp => {
                assert_eq!(Mode::best(&interface), Mode::Generic);
                Box::new(xdp(&interface, host, Mode::Generic))
            }
            Kind::XdpNative => Box::new(xdp(&interface, host, Mode::Native)),
            Kind::Udp => Box::new(udp(host)),
        }
    }
}

/// Until datagrams of the kernels come through. Before IPv6 is ready, and while a hardware address has to be asked for, they
/// keep some, and lose the rest without counting them.
fn introduce(world: &World) {
    const DISCARD: u16 = 9;
    for (family, from) in [
        (Family::V4, 1),
        (Family::V4, 2),
        (Family::V6, 1),
        (Family::V6, 2),
    ] {
        let open = |host: u8, port| {
            let end = (address(family, host), port);
            let open = || UdpSocket::bind(end).expect("a port");
            world.hosts[usize::from(host) - 1].within(open)
        };
        let (sender, receiver) = (open(from, 0), open(3 - from, DISCARD));
        let soon = Some(Duration::from_millis(5));
        receiver.set_read_timeout(soon).expect("a timeout");
        let to = (address(family, 3 - from), DISCARD);
        let start = Instant::now();
        while sender.send_to(&[1], to).is_err() || receiver.recv(&mut [0]).is_err() {
            assert!(start.elapsed() < Duration::from_secs(10));
        }
    }
}

/// Services that need no privilege.
const SERVICES: [u64; 2] = [5001, 5002];

fn ivshmem(host: u8, mtu: usize) -> Ivshmem {
    let options = ivshmem::IvshmemOptions {
        device: ivshmem::DEVICE.into(),
        service: SERVICES[usize::from(host) - 1],
        services: SERVICES.to_vec(),
        mtu,
        address: [2, 0, 0, 0, 0, host],
    };
    Ivshmem::open(&options).expect("a port to the shared memory")
}

fn xdp(interface: &Interface, host: u8, mode: Mode) -> Xdp {
    let steering = Steering::attach(interface, &wanted(host), mode).expect("the program");
    Xdp::open(&Arc::new(steering), xdp::XdpOptions::default()).expect("an XDP port")
}

/// What one host sends from `FROM` the other gets at `PORT`, in both directions.
pub fn udp_ends(host: u8) -> Vec<Addresses> {
    let end = |family, host, port| SocketAddr::new(address(family, host), port);
    let families = [Family::V4, Family::V6];
    let ways = families.map(|family| {
        [(FROM, PORT), (PORT, FROM)].map(|(here, there)| Addresses {
            source: end(family, host, here),
            destination: end(family, 3 - host, there),
        })
    });
    ways.concat()
}

pub fn udp(host: u8) -> UdpPort {
    let open = |ends| Connected::open(&ends).expect("a socket").into_fd();
    let sockets = udp_ends(host).into_iter().map(open);
    UdpPort::over(sockets.collect()).expect("a port")
}

pub fn wanted(host: u8) -> Wanted {
    Wanted {
        port: PORT,
        addresses: vec![address(Family::V4, host), address(Family::V6, host)],
    }
}

impl Ends {
    pub fn both(&mut self) -> (&mut AnyPort, &mut AnyPort) {
        let [one, other] = &mut self.ports;
        (one, other)
    }

    /// One as the sender, the other as the receiver.
    pub fn from(&mut self, host: u8) -> (&mut AnyPort, &mut AnyPort) {
        let (one, other) = self.both();
        if host == 1 {
            (one, other)
        } else {
            (other, one)
        }
    }
}

/// A test for every kind of port; or for those that are named.
#[macro_export]
macro_rules! on_every_port {
    ($($test:ident),* $(,)?) => {
        $crate::on_ports!(sim Sim: $($test),*);
        $crate::on_machines!($($test),*);
        $crate::on_ports!(udp Udp: $($test),*);
        $crate::on_every_kernel_port!($($test),*);
    };
}

/// A test for every kind of port that the kernel's protocols do not stand before.
#[macro_export]
macro_rules! on_every_kernel_port {
    ($($test:ident),* $(,)?) => {
        $crate::on_ports!(packet Packet: $($test),*);
        $crate::on_ports!(wrapped Wrapped: $($test),*);
        $crate::on_ports!(xdp Xdp: $($test),*);
        $crate::on_ports!(xdp_native XdpNative: $($test),*);
    };
}

/// Tests that need a device, which emulated machines have.
#[macro_export]
macro_rules! on_machines {
    ($($test:ident),*) => {
        mod ivshmem {
            $(#[test]
            #[ignore = "needs /dev/ulnic0: tests/vm/run"]
            fn $test() {
                super::$test($crate::rig::Kind::Ivshmem);
            })*
        }
    };
}

#[macro_export]
macro_rules! on_ports {
    ($module:ident $kind:ident: $($test:ident),*) => {
        mod $module {
            $(#[test]
            fn $test() {
                super::$test($crate::rig::Kind::$kind);
            })*
        }
    };
}
