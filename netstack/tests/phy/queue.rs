//! A queue that one opens and another uses.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use netstack::phy::packet::{PacketOptions, Queue, Shape};
use netstack::phy::{Capabilities, Interface, PacketPort, Port};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::frames::{Family, fetch, frame, post, route};
use crate::namespace::{INTERFACE, World, close};
use crate::rig::{AnyPort, wanted};

const MTU: usize = 1500;

fn open(world: &World, host: u8, options: PacketOptions) -> Queue {
    world.hosts[usize::from(host) - 1].within(|| {
        let interface = Interface::find(INTERFACE).expect("the interface");
        Queue::open(&interface, &wanted(host), options).expect("a queue")
    })
}

/// A copy of the descriptor, as a message brings it.
fn copy(queue: &Queue) -> OwnedFd {
    queue.fd().try_clone_to_owned().expect("a descriptor")
}

/// The copy lives on by itself, outside the namespace and in another thread; what has arrived before
/// is there.
#[test]
fn given_away() {
    let world = World::new(MTU, 1);
    let given = [1, 2].map(|host| {
        let queue = open(&world, host, PacketOptions::default());
        let given = (copy(&queue), queue.shape());
        close(queue);
        given
    });
    let [here, there] = given;
    let over = |(fd, shape)| -> AnyPort { Box::new(PacketPort::over(fd, shape).expect("a port")) };
    let mut here = over(here);
    let early = Capabilities {
        address: there.1.address,
        ..here.capabilities()
    };
    let way = route(Family::V4, 1, here.capabilities(), early);
    post(&mut here, &frame(&way, 700, 1));
    let made = std::thread::spawn(move || over(there)).join();
    let mut there = made.expect("no panic");
    assert_eq!(there.capabilities(), early);
    assert_eq!(fetch(&mut there), frame(&way, 700, 1));
    // More than there are slots.
    for seed in 0..3000 {
        for (family, from) in [(Family::V4, 1), (Family::V6, 2)] {
            let (sender, receiver) = match from {
                1 => (&mut here, &mut there),
                _ => (&mut there, &mut here),
            };
            let way = route(family, from, sender.capabilities(), receiver.capabilities());
            let length = 100 + seed as usize % 1400;
            post(sender, &frame(&way, length, seed));
            assert_eq!(fetch(receiver), frame(&way, length, seed));
        }
    }
}

/// A process that is given a queue receives no more than it was opened for.
#[test]
fn the_filter_stays() {
    let world = World::new(MTU, 1);
    let fd = copy(&open(&world, 1, PacketOptions::default()));
    let mut all = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: u32::MAX,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut all,
    };
    for name in [libc::SO_ATTACH_FILTER, libc::SO_DETACH_FILTER] {
        let (value, length) = (&raw const program, size_of_val(&program) as u32);
        // SAFETY: the kernel reads a program of one instruction, or nothing.
        let answer = unsafe {
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, value.cast(), length)
        };
        let why = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((answer, why), (-1, Some(libc::EPERM)));
    }
}

#[test]
fn a_wrong_shape_is_refused() {
    let world = World::new(MTU, 1);
    let options = PacketOptions {
        receive_slots: 100,
        send_slots: 40,
        ..PacketOptions::default()
    };
    let queue = open(&world, 1, options);
    let right = queue.shape();
    assert_eq!((right.receive_slots, right.send_slots), (128, 40));
    let mut wrong = vec![];
    for mtu in [0, 67, 9000, 65535, 65536, u32::MAX] {
        wrong.push(Shape { mtu, ..right });
    }
    for slots in [0, 1, 64, 100, 127, 256, 1 << 31, u32::MAX] {
        wrong.push(Shape {
            receive_slots: slots,
            ..right
        });
    }
    for slots in [0, 1 << 31, u32::MAX] {
        wrong.push(Shape {
            send_slots: slots,
            ..right
        });
    }
    for shape in wrong {
        let refusal = PacketPort::over(copy(&queue), shape).err();
        let known = [Errno::INVAL, Errno::NOMEM].map(Some);
        assert!(known.contains(&refusal), "{shape:?}: {refusal:?}");
    }
    close(PacketPort::over(copy(&queue), right).expect("a port"));
}

/// No socket at all, one of another kind, one without rings.
#[test]
fn what_is_no_queue_is_refused() {
    let world = World::new(MTU, 1);
    let shape = open(&world, 1, PacketOptions::default()).shape();
    let refusal = |fd: OwnedFd| PacketPort::over(fd, shape).err();
    let file = std::fs::File::open("/dev/zero").expect("a file");
    assert_eq!(refusal(file.into()), Some(Errno::NOTSOCK));
    let (socket, _other) = UnixDatagram::pair().expect("a pair");
    assert_eq!(refusal(socket.into()), Some(Errno::INVAL));
    let bare = |kind| {
        let flags = SocketFlags::CLOEXEC;
        socket_with(AddressFamily::PACKET, kind, flags, None).expect("a socket")
    };
    assert_eq!(refusal(bare(SocketType::DGRAM)), Some(Errno::INVAL));
    assert_eq!(refusal(bare(SocketType::RAW)), Some(Errno::INVAL));
}
