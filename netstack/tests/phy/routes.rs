//! The way to a peer, and what changes it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netstack::phy::Interface;
use netstack::phy::route::{Change, Hop, Neighbour, Routes, Unfit, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::frames::{Family, address};
use crate::namespace::{INTERFACE, World};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

struct Scene {
    world: World,
    routes: Routes,
    watch: Watch,
    interface: Interface,
    peer: Interface,
}

impl Scene {
    fn new() -> Scene {
        let world = World::new(1500, 1);
        let open = || {
            (
                Routes::open().expect("netlink"),
                Watch::open().expect("netlink"),
            )
        };
        let (routes, watch) = world.hosts[0].within(open);
        let find = || Interface::find(INTERFACE).expect("the interface");
        let [interface, peer] = [0, 1].map(|host: usize| world.hosts[host].within(find));
        Scene {
            world,
            routes,
            watch,
            interface,
            peer,
        }
    }

    fn ip(&self, words: &str) {
        self.world.hosts[0].ip(words);
    }

    fn unfit(&mut self, peer: &str) -> Unfit {
        self.routes.find(ip(peer), None).expect_err("no plain way")
    }

    /// Sleeps until this change is told.
    fn hear(&mut self, expected: Change) {
        let start = Instant::now();
        let mut heard = false;
        while !heard {
            assert!(start.elapsed() < Duration::from_secs(5), "{expected:?}");
            let time = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            let mut fds = [PollFd::from_borrowed_fd(self.watch.wake(), PollFlags::IN)];
            poll(&mut fds, Some(&time)).expect("poll");
            let hear = |change| heard |= change == expected;
            self.watch.changes(hear).expect("changes");
        }
    }

    fn forget(&mut self) {
        self.watch.changes(|_| {}).expect("changes");
    }
}

#[test]
fn straight_to_a_neighbour() {
    let mut scene = Scene::new();
    for family in [Family::V4, Family::V6] {
        let peer = address(family, 2);
        let expected = Hop {
            interface: scene.interface.index,
            hardware: scene.interface.address,
            source: address(family, 1),
            next: peer,
            mtu: 1500,
        };
        let hop = scene.routes.find(peer, None).expect("a way");
        assert_eq!(hop, expected);
        let from = Some(address(family, 1));
        assert_eq!(scene.routes.find(peer, from), Ok(expected));
        assert_eq!(scene.routes.neighbour(&hop), Ok(Neighbour::Unknown));
        scene.routes.resolve(&hop).expect("root");
        scene.hear(Change::Neighbour {
            interface: hop.interface,
            address: peer,
        });
        let start = Instant::now();
        loop {
            let found = scene.routes.neighbour(&hop).expect("an answer");
            if let Some(address) = found.address() {
                assert_eq!(address, scene.peer.address);
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    }
}

/// A neighbour that does not answer, one that was set by hand, and one that has a new address.
#[test]
fn neighbours_come_and_go() {
    let mut scene = Scene::new();
    let hop = scene.routes.find(ip("10.9.0.77"), None).expect("a way");
    scene.routes.resolve(&hop).expect("root");
    let start = Instant::now();
    // The kernel asks three times, a second apart.
    while scene.routes.neighbour(&hop) != Ok(Neighbour::Failed) {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
    scene.forget();
    for last in [5, 6] {
        scene.ip(&format!(
            "neigh replace 10.9.0.77 lladdr 02:00:00:00:00:0{last} dev eth0"
        ));
        scene.hear(Change::Neighbour {
            interface: hop.interface,
            address: hop.next,
        });
        let known = Neighbour::Fresh([2, 0, 0, 0, 0, last]);
        assert_eq!(scene.routes.neighbour(&hop), Ok(known));
    }
    scene.ip("neigh change 10.9.0.77 lladdr 02:00:00:00:00:06 nud stale dev eth0");
    let stale = Neighbour::Stale([2, 0, 0, 0, 0, 6]);
    assert_eq!(scene.routes.neighbour(&hop), Ok(stale));
    scene.ip("neigh del 10.9.0.77 dev eth0");
    let found = scene.routes.neighbour(&hop).expect("an answer");
    assert_eq!(found.address(), None);
}

#[test]
fn through_a_router() {
    let mut scene = Scene::new();
    assert_eq!(
        scene.unfit("10.77.0.1"),
        Unfit::Unreachable(Errno::NETUNREACH)
    );
    scene.forget();
    scene.ip("route add 10.77.0.0/16 via 10.9.0.2 mtu 1400");
    scene.hear(Change::Routes);
    let hop = scene.routes.find(ip("10.77.0.1"), None).expect("a way");
    assert_eq!((hop.next, hop.mtu), (ip("10.9.0.2"), 1400));
    assert_eq!(hop.source, ip("10.9.0.1"));
    scene.ip("-6 route add fd77::/64 via fd09::2");
    let hop = scene.routes.find(ip("fd77::1"), None).expect("a way");
    assert_eq!((hop.next, hop.source), (ip("fd09::2"), ip("fd09::1")));
    // A router of the other family.
    scene.ip("route add 10.78.0.0/16 via inet6 fd09::2 dev eth0");
    let hop = scene.routes.find(ip("10.78.0.1"), None).expect("a way");
    assert_eq!((hop.next, hop.source), (ip("fd09::2"), ip("10.9.0.1")));
    scene.forget();
    scene.ip("route del 10.77.0.0/16");
    scene.hear(Change::Routes);
    assert_eq!(
        scene.unfit("10.77.0.1"),
        Unfit::Unreachable(Errno::NETUNREACH)
    );
}

#[test]
fn what_is_not_plain_has_a_reason() {
    let mut scene = Scene::new();
    assert_eq!(scene.unfit("10.9.0.1"), Unfit::Local);
    assert_eq!(scene.unfit("127.0.0.1"), Unfit::Local);
    assert_eq!(scene.unfit("::1"), Unfit::Local);
    assert_eq!(scene.unfit("fd09::1"), Unfit::Local);
    assert_eq!(scene.unfit("10.9.0.255"), Unfit::NotOneHost);
    assert_eq!(scene.unfit("224.0.0.1"), Unfit::NotOneHost);
    assert_eq!(scene.unfit("ff02::1"), Unfit::NotOneHost);
    scene.ip("route add blackhole 10.80.0.0/16");
    scene.ip("route add prohibit 10.81.0.0/16");
    assert_eq!(scene.unfit("10.80.0.1"), Unfit::Unreachable(Errno::INVAL));
    assert_eq!(scene.unfit("10.81.0.1"), Unfit::Unreachable(Errno::ACCESS));
    // Through an interface without Ethernet.
    scene.ip("tuntap add dev tun0 mode tun");
    scene.ip("addr add 10.82.0.1/16 dev tun0");
    scene.ip("link set tun0 up");
    let unfit = scene.unfit("10.82.0.2");
    assert!(matches!(unfit, Unfit::NotEthernet(_)), "{unfit:?}");
    assert!(unfit.to_string().contains("not Ethernet"));
    scene.ip(&format!("link set {INTERFACE} arp off"));
    assert_eq!(scene.unfit("10.9.0.2"), Unfit::NoNeighbours);
}

#[test]
fn interfaces_change() {
    let mut scene = Scene::new();
    let interface = Change::Interface(scene.interface.index);
    scene.forget();
    scene.ip(&format!("link set {INTERFACE} mtu 1300"));
    scene.hear(interface);
    let hop = scene.routes.find(ip("10.9.0.2"), None).expect("a way");
    assert_eq!(hop.mtu, 1300);
    scene.forget();
    scene.ip(&format!("link set {INTERFACE} address 02:00:00:00:00:09"));
    scene.hear(interface);
    let hop = scene.routes.find(ip("10.9.0.2"), None).expect("a way");
    assert_eq!(hop.hardware, [2, 0, 0, 0, 0, 9]);
    scene.forget();
    scene.ip(&format!("link set {INTERFACE} down"));
    scene.hear(interface);
    assert_eq!(
        scene.unfit("10.9.0.2"),
        Unfit::Unreachable(Errno::NETUNREACH)
    );
    scene.ip(&format!("link del {INTERFACE}"));
    scene.hear(interface);
    assert_eq!(
        scene.unfit("10.9.0.2"),
        Unfit::Unreachable(Errno::NETUNREACH)
    );
}

/// A listener that has not read for long is told to ask for everything.
#[test]
fn missed_changes() {
    let mut scene = Scene::new();
    let add = |number: u32| {
        let (high, low) = (number / 250, number % 250 + 1);
        format!("neigh replace 10.9.{high}.{low} lladdr 02:00:00:00:00:01 dev {INTERFACE}\n")
    };
    let batch: String = (0..3000).map(add).collect();
    let path = std::env::temp_dir().join(format!("neighbours-{}", std::process::id()));
    std::fs::write(&path, batch).expect("a file");
    scene.ip(&format!("-batch {}", path.display()));
    let _ = std::fs::remove_file(&path);
    let (mut all, mut others) = (0, 0);
    let count = |change| match change {
        Change::All => all += 1,
        _ => others += 1,
    };
    scene.watch.changes(count).expect("changes");
    assert_eq!(all, 1);
    assert!(others < 3000, "{others}");
    scene.ip("neigh replace 10.9.0.99 lladdr 02:00:00:00:00:02 dev eth0");
    scene.hear(Change::Neighbour {
        interface: scene.interface.index,
        address: ip("10.9.0.99"),
    });
}
