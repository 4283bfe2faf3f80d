//! The XDP program on an interface, and the queues behind it.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use netstack::phy::xdp::{Copies, Mode, Refusal, Steering, XdpOptions};
use netstack::phy::{Interface, Port, Wanted, Xdp};
use rustix::io::Errno;

use crate::frames::{Family, PORT, await_frame, fetch, frame, post, route};
use crate::namespace::{INTERFACE, Namespace, World, close};
use crate::rig::wanted;

fn interface() -> Interface {
    Interface::find(INTERFACE).expect("the interface")
}

fn attach(host: u8, mode: Mode) -> Result<Steering, Refusal> {
    Steering::attach(&interface(), &wanted(host), mode)
}

/// What `ip` says about programs on the interface.
fn is_attached(host: &Namespace) -> bool {
    let words = format!("-details link show dev {INTERFACE}");
    host.ip(&words).contains("prog/xdp id")
}

/// Another's program is not replaced, whatever its mode; ours is gone when we are.
#[test]
fn one_program_at_a_time() {
    let world = World::new(1500, 1);
    let host = &world.hosts[0];
    host.within(|| {
        assert!(!is_attached(host));
        for mode in [Mode::Generic, Mode::Native] {
            let first = attach(1, mode).expect("the program");
            assert!(is_attached(host));
            for other in [Mode::Generic, Mode::Native] {
                let refusal = attach(1, other).expect_err("a program is there");
                assert_eq!(refusal, Refusal::Occupied);
                assert!(refusal.to_string().contains("another XDP program"));
            }
            close(first);
            assert!(!is_attached(host));
        }
    });
}

/// Without a socket all frames go to the kernel, ours too.
#[test]
fn no_socket_no_change() {
    let world = World::new(1500, 1);
    let bind = |ip| UdpSocket::bind((ip, PORT)).expect("a port");
    let server = world.hosts[1].within(|| bind("10.9.0.2"));
    let client = world.hosts[0].within(|| bind("10.9.0.1"));
    let patience = Some(Duration::from_millis(200));
    server.set_read_timeout(patience).expect("a time");
    for mode in [Mode::Generic, Mode::Native] {
        let steering = world.hosts[1].within(|| Arc::new(attach(2, mode).expect("the program")));
        let passes = || {
            client
                .send_to(b"hello", ("10.9.0.2", PORT))
                .expect("to send");
            server.recv(&mut [0; 9]).is_ok()
        };
        let open = || Xdp::open(&steering, XdpOptions::default()).expect("a port");
        assert!(passes());
        let port = world.hosts[1].within(open);
        assert!(!passes());
        close(port);
        assert!(passes());
        close(steering);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let world = World::new(1500, 1);
    world.hosts[0].within(|| {
        let addresses = vec![[10, 9, 0, 1].into(); 17];
        let too_many = Wanted {
            port: PORT,
            addresses,
        };
        let refusal = Steering::attach(&interface(), &too_many, Mode::Generic);
        assert_eq!(refusal.err(), Some(Refusal::Failed(Errno::INVAL)));
        for mode in [Mode::Generic, Mode::Native] {
            let steering = Arc::new(attach(1, mode).expect("the program"));
            let open = |options| Xdp::open(&steering, options);
            let never = XdpOptions {
                copies: Copies::Never,
                ..XdpOptions::default()
            };
            assert_eq!(open(never).err(), Some(Errno::OPNOTSUPP), "veth copies");
            let missing = XdpOptions {
                queue: 7,
                ..XdpOptions::default()
            };
            assert_eq!(open(missing).err(), Some(Errno::INVAL));
            let first = open(XdpOptions::default()).expect("a port");
            assert!(!first.is_zero_copy());
            assert_eq!(open(XdpOptions::default()).err(), Some(Errno::BUSY));
            close(first);
            close(open(XdpOptions::default()).expect("a port"));
            close(steering);
        }
    });
}

/// A port for each queue: in the driver a frame arrives at the queue of the number that it left from.
/// With the program on the kernel's buffers all arrive at the first.
#[test]
fn two_queues() {
    let world = World::new(1500, 2);
    for mode in [Mode::Native, Mode::Generic] {
        let open = |host: u8| {
            world.hosts[usize::from(host) - 1].within(|| {
                let steering = Arc::new(attach(host, mode).expect("the program"));
                [0, 1].map(|queue| {
                    let options = XdpOptions {
                        queue,
                        ..XdpOptions::default()
                    };
                    Xdp::open(&steering, options).expect("a port")
                })
            })
        };
        let (mut senders, mut receivers) = (open(1), open(2));
        let (here, there) = (senders[0].capabilities(), receivers[0].capabilities());
        let route = route(Family::V4, 1, here, there);
        for seed in 0..300 {
            let queue = (seed % 2) as usize;
            post(&mut senders[queue], &frame(&route, 200, seed));
            let arrives = if mode == Mode::Native { queue } else { 0 };
            assert_eq!(fetch(&mut receivers[arrives]), frame(&route, 200, seed));
            assert_eq!(await_frame(&mut receivers[1 - arrives], 0), None);
        }
        close((senders, receivers));
    }
}
