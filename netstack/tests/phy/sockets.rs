//! Sockets that one opens and another uses, what strangers can do to them, and what the kernel cuts.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use netstack::phy::udp::Connected;
use netstack::phy::{Port, Reserved, Trouble, UdpPort};
use netstack::wire::Addresses;
use netstack::wire::frame::{Ecn, Offload, parse};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use rustix::thread::{Uid, set_thread_res_uid};

use crate::frames::{FROM, Family, PORT, await_frame, fetch, frame, now, post, route, seen};
use crate::namespace::{INTERFACE, World};
use crate::rig::{Kind, udp, udp_ends};

const MTU: usize = 1500;

/// As a message brings it.
fn copy(socket: &Connected) -> OwnedFd {
    socket.fd().try_clone_to_owned().expect("a descriptor")
}

/// Used outside the namespace and in another thread; what has arrived before is there.
#[test]
fn given_away() {
    let world = World::new(MTU, 1);
    let ports = [1, 2].map(|host: u8| {
        let sockets = world.hosts[usize::from(host) - 1].within(|| {
            let open = |ends| Connected::open(&ends).expect("a socket");
            udp_ends(host).into_iter().map(open).collect::<Vec<_>>()
        });
        assert!(sockets.iter().all(|socket| socket.mtu() == MTU));
        let given = sockets.iter().map(copy).collect::<Vec<_>>();
        thread::spawn(move || UdpPort::over(given).expect("a port"))
    });
    let [mut here, mut there] = ports.map(|port| port.join().expect("no panic"));
    for seed in 0..3000 {
        let family = [Family::V4, Family::V6][seed as usize % 2];
        let way = route(family, 1, here.capabilities(), there.capabilities());
        let length = 100 + seed as usize % 1400;
        post(&mut here, &frame(&way, length, seed));
        let received = fetch(&mut there);
        let sent = frame(&way, length, seed);
        assert_eq!(seen(&there, received), seen(&there, sent));
    }
}

#[test]
fn what_is_no_such_socket_is_refused() {
    let refusal = |fd: OwnedFd| {
        let mut port = UdpPort::new(MTU).expect("a port");
        port.add(fd).err()
    };
    let file = std::fs::File::open("/dev/zero").expect("a file");
    assert_eq!(refusal(file.into()), Some(Errno::NOTSOCK));
    let (socket, _other) = UnixDatagram::pair().expect("a pair");
    assert_eq!(refusal(socket.into()), Some(Errno::INVAL));
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    assert_eq!(refusal(tcp.into()), Some(Errno::INVAL));
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    assert_eq!(refusal(udp.into()), Some(Errno::NOTCONN));
    // IPv4 by a socket of IPv6.
    let mixed = UdpSocket::bind("[::]:0").expect("a port");
    mixed.connect("[::ffff:127.0.0.1]:9").expect("a peer");
    assert_eq!(refusal(mixed.into()), Some(Errno::INVAL));
    for mtu in [0, 1199] {
        assert_eq!(UdpPort::new(mtu).err(), Some(Errno::INVAL));
    }
}

fn ends() -> Addresses {
    udp_ends(1)[0]
}

/// A socket that shares its port with whoever says so, too.
fn shared(name: i32) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    match name {
        libc::SO_REUSEADDR => sockopt::set_socket_reuseaddr(&socket, true)?,
        _ => sockopt::set_socket_reuseport(&socket, true)?,
    }
    bind(&socket, &ends().source)
}

/// Another user cannot have the port beside us, so that it never gets what our peer sends; nor can a port be
/// taken that somebody still has a socket of.
#[test]
fn strangers_cannot_share_the_port() {
    let world = World::new(MTU, 1);
    world.hosts[0].within(|| {
        let reserved = Reserved::new(FROM).expect("the port");
        let socket = Connected::open(&ends()).expect("a socket");
        assert_eq!(shared(libc::SO_REUSEADDR), Err(Errno::ADDRINUSE));
        thread::scope(|scope| {
            let stranger = scope.spawn(|| {
                let uid = Uid::from_raw(1001);
                set_thread_res_uid(uid, uid, uid).expect("root");
                shared(libc::SO_REUSEPORT)
            });
            let answer = stranger.join().expect("no panic");
            assert_eq!(answer, Err(Errno::ADDRINUSE));
        });
        let kept = copy(&socket);
        drop((reserved, socket));
        assert_eq!(Reserved::new(FROM).err(), Some(Errno::ADDRINUSE));
        drop(kept);
        Reserved::new(FROM).expect("nobody has it");
    });
}

/// Whatever strangers send, while a socket is opened and afterwards, is not received.
#[test]
fn strangers_are_not_heard() {
    let world = World::new(MTU, 1);
    let stranger = world.hosts[1].within(|| UdpSocket::bind("10.9.0.2:7777").expect("a port"));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for port in [FROM, PORT] {
                    let _ = stranger.send_to(b"hello", ("10.9.0.1", port));
                }
                // More would fill the queue that all hosts of this machine share.
                thread::sleep(Duration::from_micros(20));
            }
        });
        let heard = (0..50).find(|_| {
            let mut port = world.hosts[0].within(|| udp(1));
            await_frame(&mut port, 2).is_some()
        });
        over.store(true, Ordering::Relaxed);
        assert_eq!(heard, None);
    });
}

/// A peer that is not there answers by ICMP; when it is there, all goes on.
#[test]
fn nobody_there() {
    let world = World::new(MTU, 1);
    let mut here = world.hosts[0].within(|| udp(1));
    let way = route(Family::V4, 1, here.capabilities(), here.capabilities());
    for seed in 0..20 {
        post(&mut here, &frame(&way, 200, seed));
        assert!(here.receive(now()).is_none());
    }
    let mut there = world.hosts[1].within(|| udp(2));
    for seed in 0..20 {
        post(&mut here, &frame(&way, 200, seed));
        assert_eq!(fetch(&mut there), frame(&way, 200, seed));
    }
    assert_eq!(here.trouble(), None);
}

#[test]
fn no_route() {
    let mut ends = Kind::Udp.ends(MTU);
    let world = ends.world.take().expect("a kernel");
    let (one, other) = ends.both();
    let way = route(Family::V4, 1, one.capabilities(), other.capabilities());
    world.hosts[1].ip(&format!("link del {INTERFACE}"));
    let slot = one.slot().expect("room");
    slot[..100].copy_from_slice(&frame(&way, 100, 1));
    one.commit(100);
    assert_eq!(one.flush(now()), Err(Trouble::Down));
    assert_eq!(one.flush(now()), Ok(()));
    assert_eq!(one.trouble(), Some(Trouble::Down));
    assert!(one.receive(now()).is_none());
}

/// Sends a batch of these lengths: how many calls that took.
fn batch(one: &mut impl Port, other: &mut impl Port, family: Family, lengths: &[usize]) -> u64 {
    let way = route(family, 1, one.capabilities(), other.capabilities());
    let before = one.counters().calls;
    for (seed, &length) in (0..).zip(lengths) {
        let slot = one.slot().expect("room");
        slot[..length].copy_from_slice(&frame(&way, length, seed));
        one.commit(length);
    }
    one.flush(now()).expect("to send");
    let calls = one.counters().calls - before;
    for (seed, &length) in (0..).zip(lengths) {
        let received = fetch(other);
        assert_eq!(
            seen(other, received),
            seen(other, frame(&way, length, seed))
        );
    }
    calls
}

#[test]
fn a_batch_is_one_call() {
    let mut ends = Kind::Udp.ends(MTU);
    let (one, other) = ends.both();
    for family in [Family::V4, Family::V6] {
        assert_eq!(batch(one, other, family, &[1514; 12]), 1);
        assert_eq!(batch(one, other, family, &[1514, 1514, 700]), 1);
        assert_eq!(batch(one, other, family, &[1514; 64]), 2);
        assert_eq!(batch(one, other, family, &[700, 1514, 1514]), 2);
        assert_eq!(batch(one, other, family, &[80; 64]), 1);
        assert_eq!(batch(one, other, family, &[1000]), 1);
    }
}

/// Where the kernel does not cut datagrams (here because the socket is to have no checksums), they go one by
/// one; and after a few of them nobody asks any more.
#[test]
fn the_kernel_does_not_cut() {
    let world = World::new(MTU, 1);
    let open = |host: u8| {
        world.hosts[usize::from(host) - 1].within(|| {
            let open = |ends| Connected::open(&ends).expect("a socket");
            let sockets = udp_ends(host).into_iter().map(open);
            sockets.map(Connected::into_fd).collect::<Vec<_>>()
        })
    };
    let sockets = open(1);
    for socket in &sockets {
        let one = 1i32;
        let (value, length) = (&raw const one, size_of_val(&one) as u32);
        // SAFETY: the kernel reads a number.
        let answer = unsafe {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_NO_CHECK);
            libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), length)
        };
        assert_eq!(answer, 0);
    }
    let mut here = UdpPort::over(sockets).expect("a port");
    let mut there = UdpPort::over(open(2)).expect("a port");
    for _ in 0..20 {
        let calls = batch(&mut here, &mut there, Family::V4, &[1514; 12]);
        assert!((12..=13).contains(&calls), "{calls}");
    }
    assert_eq!(batch(&mut here, &mut there, Family::V4, &[1514; 12]), 12);
}

/// ECN's bits go there and come back, also if they change within a batch.
#[test]
fn marks_arrive() {
    let mut ends = Kind::Udp.ends(MTU);
    let (one, other) = ends.both();
    let marks = [Ecn::Capable, Ecn::Capable, Ecn::NotCapable, Ecn::Congested];
    for family in [Family::V4, Family::V6] {
        let way = route(family, 1, one.capabilities(), other.capabilities());
        let offload = one.capabilities().offload;
        for mark in marks {
            let length = 300 - way.headers().overhead();
            let slot = one.slot().expect("room");
            let written = way.headers().emit(slot, mark, length, offload);
            one.commit(written.expect("it fits"));
        }
        one.flush(now()).expect("to send");
        for mark in marks {
            let received = fetch(other);
            assert_eq!(parse(&received, offload).expect("a datagram").ecn, mark);
        }
    }
}

/// Frames that no socket of the port is for are refused.
#[test]
fn only_to_peers() {
    let mut ends = Kind::Udp.ends(MTU);
    let (one, other) = ends.both();
    let way = route(Family::V4, 1, one.capabilities(), other.capabilities());
    let with = |source: &str, destination: &str| {
        let end = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let mut way = way;
        (way.addresses.source, way.addresses.destination) = (end(source), end(destination));
        frame(&way, 100, 1)
    };
    let mut wrong = vec![
        with("10.9.0.1:5000", "10.9.0.3:4690"),
        with("10.9.0.1:5000", "10.9.0.2:4691"),
        with("10.9.0.1:5001", "10.9.0.2:4690"),
        with("10.9.0.7:5000", "10.9.0.2:4690"),
    ];
    let ours = frame(&way, 100, 1);
    for at in [12, 13, 14, 38, 39] {
        let mut changed = ours.clone();
        changed[at] ^= 1;
        wrong.push(changed);
    }
    wrong.extend((0..42).map(|length| ours[..length].to_vec()));
    for bytes in &wrong {
        post(one, bytes);
    }
    assert_eq!(one.counters().refused, wrong.len() as u64);
    post(one, &ours);
    assert_eq!(fetch(other), ours);
    assert!(parse(&ours, Offload::default()).is_ok());
}

/// One socket goes, the others stay; there are not two with the same ends.
#[test]
fn sockets_come_and_go() {
    let world = World::new(MTU, 1);
    let open = |host: u8, port: u16| {
        let mut ends = udp_ends(host)[0];
        match host {
            1 => ends.source.set_port(port),
            _ => {
                ends = udp_ends(host)[1];
                ends.destination.set_port(port);
            }
        }
        let socket = || Connected::open(&ends).expect("a socket").into_fd();
        world.hosts[usize::from(host) - 1].within(socket)
    };
    let mut here = UdpPort::new(MTU).expect("a port");
    let mut there = UdpPort::new(MTU).expect("a port");
    let ports = [5000, 5001, 5002];
    let known = ports.map(|port| {
        there.add(open(2, port)).expect("a socket");
        here.add(open(1, port)).expect("a socket")
    });
    let mut exchange = |here: &mut UdpPort, port: u16| {
        let mut way = route(Family::V4, 1, here.capabilities(), here.capabilities());
        way.addresses.source.set_port(port);
        let bytes = frame(&way, 900, port.into());
        post(here, &bytes);
        await_frame(&mut there, 50) == Some(bytes)
    };
    assert!(ports.iter().all(|port| exchange(&mut here, *port)));
    assert!(here.remove(&known[0]).is_some() && here.remove(&known[0]).is_none());
    let left = ports.map(|port| exchange(&mut here, port));
    assert_eq!(left, [false, true, true]);
    here.add(open(1, ports[0])).expect("a socket");
    assert_eq!(here.add(open(1, ports[2])), Err(Errno::EXIST));
    assert!(ports.iter().all(|port| exchange(&mut here, *port)));
}
