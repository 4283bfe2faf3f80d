//! `[W6]` UDP checksums that an XDP port leaves to the interface, as they arrive at the other end; and those that it does
//! not leave.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use netstack::phy::{Port, Reserved};
use netstack::wire::frame::{ETHERNET, Offload, Outline, parse};

use crate::frames::{Family, PORT, commit, frame_for, least, now, post, route};
use crate::namespace::{INTERFACE, Namespace, World};
use crate::on_ports;
use crate::rig::{AnyPort, Kind};

on_ports!(xdp Xdp: left_to_the_interface, among_others, computed_nowhere, only_in_one_chunk);
// veth takes no program into its driver for frames of a page.
on_ports!(xdp_native XdpNative: left_to_the_interface, among_others, computed_nowhere);

const MTU: usize = 1500;
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// What is believed of no frame.
const STRICT: Offload = Offload {
    udp_sent: false,
    udp_received: false,
};

/// A port of the kind at host 1, and at host 2 one that sees frames as the driver has left them.
struct Ends {
    world: World,
    sender: AnyPort,
    witness: AnyPort,
    _reserved: Reserved,
}

impl Ends {
    fn new(kind: Kind, world: World) -> Ends {
        Ends {
            sender: kind.open(&world, 1),
            witness: Kind::Packet.open(&world, 2),
            _reserved: world.hosts[1].within(|| Reserved::new(PORT).expect("the port")),
            world,
        }
    }

    fn offload(&self) -> Offload {
        self.sender.capabilities().offload
    }

    fn frame(&self, family: Family, length: usize) -> Vec<u8> {
        let (here, there) = (self.sender.capabilities(), self.witness.capabilities());
        let route = route(family, 1, here, there);
        frame_for(here.offload, &route, length, length as u64)
    }

    /// What has come, and whether the kernel says that its checksum need not be looked at.
    fn fetch(&mut self) -> (Vec<u8>, bool) {
        let end = now() + std::time::Duration::from_secs(2);
        loop {
            if let Some(frame) = self.witness.receive(now()) {
                return (frame.bytes.to_vec(), frame.checked);
            }
            assert!(now() < end, "a frame");
            std::thread::yield_now();
        }
    }
}

/// As `ethtool -K tx` does (linux/ethtool.h: ETHTOOL_STXCSUM).
fn set_checksums_sent(host: &Namespace, on: bool) {
    const SET: u32 = 0x17;
    host.within(|| {
        let mut value = [SET, on.into()];
        let mut request = [0u8; 40];
        request[..INTERFACE.len()].copy_from_slice(INTERFACE.as_bytes());
        let pointer = &raw mut value as usize;
        request[16..24].copy_from_slice(&pointer.to_ne_bytes());
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let fd = socket.as_raw_fd();
        // SAFETY: a struct ifreq that names a struct ethtool_value; both outlive the call.
        let result = unsafe { libc::ioctl(fd, libc::SIOCETHTOOL, request.as_mut_ptr()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    });
}

fn is_open(frame: &[u8]) -> bool {
    Outline::of(frame).is_some_and(|outline| outline.is_open(frame))
}

/// On veth no hardware is on the way: frames arrive as they were sent, marked as not computed. Where the interface does not
/// compute any more the kernel does, and what arrives is right.
fn left_to_the_interface(kind: Kind) {
    let mut ends = Ends::new(kind, World::new(MTU, 1));
    assert!(ends.offload().udp_sent);
    for on in [true, false, true] {
        set_checksums_sent(&ends.world.hosts[0], on);
        for family in FAMILIES {
            for length in (least(family)..200).chain([701, 1024, ETHERNET + MTU]) {
                let sent = ends.frame(family, length);
                assert!(is_open(&sent));
                post(&mut ends.sender, &sent);
                let (received, checked) = ends.fetch();
                if on {
                    assert!(checked && received == sent, "{length} {family:?}");
                    continue;
                }
                assert!(!is_open(&received), "{length} {family:?}");
                let read = parse(&received, STRICT).expect("a right checksum");
                let open = parse(&sent, STRICT).expect("an open one");
                assert_eq!(read.addresses, open.addresses);
                assert!(read.payload == open.payload);
            }
        }
    }
}

/// Frames with metadata and without, in one flush.
fn among_others(kind: Kind) {
    let mut ends = Ends::new(kind, World::new(MTU, 1));
    let offload = ends.offload();
    assert!(offload.udp_sent);
    set_checksums_sent(&ends.world.hosts[0], false);
    for round in 0..20 {
        let (here, there) = (ends.sender.capabilities(), ends.witness.capabilities());
        let frames: Vec<_> = (0..100)
            .map(|seed| {
                let offload = [offload, STRICT][(seed + round) % 2];
                let way = route(FAMILIES[seed / 2 % 2], 1, here, there);
                frame_for(offload, &way, 100 + seed, seed as u64)
            })
            .collect();
        frames
            .iter()
            .for_each(|bytes| commit(&mut ends.sender, bytes));
        ends.sender.flush(now()).expect("to send");
        for sent in &frames {
            let (received, _) = ends.fetch();
            // Without metadata nobody changes anything.
            assert!(is_open(sent) || received == *sent);
            let read = parse(&received, STRICT).expect("a right checksum");
            let expected = parse(sent, STRICT).expect("a datagram");
            assert!(read.payload == expected.payload);
        }
    }
    assert_eq!(ends.sender.counters().refused, 0);
}

/// An interface that computes none: nothing is asked of it, and what arrives is what the link has written.
fn computed_nowhere(kind: Kind) {
    let world = World::new(MTU, 1);
    set_checksums_sent(&world.hosts[0], false);
    let mut ends = Ends::new(kind, world);
    assert_eq!(ends.offload(), STRICT);
    for family in FAMILIES {
        for length in [least(family), 101, ETHERNET + MTU] {
            let sent = ends.frame(family, length);
            post(&mut ends.sender, &sent);
            assert_eq!(ends.fetch().0, sent);
            parse(&sent, STRICT).expect("a right checksum");
        }
    }
}

/// The longest frames that have room for metadata before them, and longer ones.
fn only_in_one_chunk(kind: Kind) {
    const LONGEST: usize = 4096 - 64 - ETHERNET;
    for (mtu, completes) in [(LONGEST, true), (LONGEST + 1, false), (9000, false)] {
        let mut ends = Ends::new(kind, World::new(mtu, 1));
        assert_eq!(ends.offload().udp_sent, completes, "{mtu}");
        for family in FAMILIES {
            let sent = ends.frame(family, ETHERNET + mtu);
            post(&mut ends.sender, &sent);
            let (received, _) = ends.fetch();
            assert!(received == sent);
            assert_eq!(is_open(&received), completes);
        }
    }
}
