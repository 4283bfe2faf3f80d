//! A host that speaks TCP: smoltcp's, with Reno, and rings as large as the link's.

use std::collections::VecDeque;
use std::time::Duration;

use netstack::time::Instant;
use netstack::wire::Addresses;
use netstack::wire::frame::Ecn;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Address};

use super::dumbbell::{Host, Leaving, address};
use super::linked::{ANSWER, Program};
use crate::net::Datagram;

/// Bytes around an IP packet on the cable: Ethernet, and the gap between frames.
const OVERHEAD: u64 = 14 + 24;
const PORT: u16 = 1000;

/// Packets between the stack and the cable, of which one may wait to leave.
#[derive(Default)]
struct Queues {
    came: VecDeque<Vec<u8>>,
    leaves: Option<Vec<u8>>,
}

struct Came(Vec<u8>);
struct Leaves<'a>(&'a mut Option<Vec<u8>>);

impl phy::RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Leaves<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut packet = vec![0; length];
        let result = f(&mut packet);
        *self.0 = Some(packet);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Came;
    type TxToken<'a> = Leaves<'a>;

    fn receive(&mut self, _: Time) -> Option<(Came, Leaves<'_>)> {
        if self.leaves.is_some() {
            return None;
        }
        let came = self.came.pop_front()?;
        Some((Came(came), Leaves(&mut self.leaves)))
    }

    fn transmit(&mut self, _: Time) -> Option<Leaves<'_>> {
        self.leaves.is_none().then_some(Leaves(&mut self.leaves))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        // Nothing is corrupted here.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

struct Connection {
    handle: SocketHandle,
    written: u64,
    read: u64,
    asked_at: Instant,
}

pub struct Tcp {
    queues: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    connections: Vec<Connection>,
    addresses: Addresses,
    program: Program,
    delivered: u64,
    latencies: Vec<Duration>,
    next: Option<Instant>,
}

fn time(now: Instant) -> Time {
    Time::from_micros((now.as_nanos() / 1000) as i64)
}

impl Tcp {
    pub fn new([me, peer]: [u8; 2], opens: bool, program: Program, count: u16, ring: u64) -> Tcp {
        let mut queues = Queues::default();
        let now = Instant::from_nanos(1_000_000_000);
        let config = Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut queues, time(now));
        let here = Ipv4Address::new(10, 0, 0, me);
        interface.update_ip_addrs(|all| {
            all.push(IpCidr::new(IpAddress::Ipv4(here), 24))
                .expect("room");
        });
        let mut tcp = Tcp {
            queues,
            interface,
            sockets: SocketSet::new(Vec::new()),
            connections: Vec::new(),
            addresses: Addresses {
                source: address(me, PORT),
                destination: address(peer, PORT),
            },
            program,
            delivered: 0,
            latencies: Vec::new(),
            next: Some(now),
        };
        for number in 0..count {
            tcp.connect(peer, PORT + number, opens, ring as usize);
        }
        tcp
    }

    fn connect(&mut self, peer: u8, port: u16, opens: bool, ring: usize) {
        let buffer = || SocketBuffer::new(vec![0; ring]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_congestion_control(CongestionControl::Reno);
        socket.set_nagle_enabled(false);
        let there = (IpAddress::v4(10, 0, 0, peer), port);
        match opens {
            true => socket
                .connect(self.interface.context(), there, port)
                .expect("connect"),
            false => socket.listen(port).expect("listen"),
        }
        self.connections.push(Connection {
            handle: self.sockets.add(socket),
            written: 0,
            read: 0,
            asked_at: Instant::ZERO,
        });
    }

    fn poll(&mut self, now: Instant) {
        let Tcp {
            queues,
            interface,
            sockets,
            ..
        } = self;
        interface.poll(time(now), queues, sockets);
        self.work(now);
        self.interface
            .poll(time(now), &mut self.queues, &mut self.sockets);
        let next = self.interface.poll_at(time(now), &self.sockets);
        self.next = next.map(|at| Instant::from_nanos(at.total_micros() as u64 * 1000));
    }

    /// The programs get up.
    fn work(&mut self, now: Instant) {
        for connection in &mut self.connections {
            let socket = self.sockets.get_mut::<Socket>(connection.handle);
            while socket.can_recv() {
                let count = socket
                    .recv(|bytes| (bytes.len(), bytes.len()))
                    .expect("open");
                connection.read += count as u64;
                self.delivered += count as u64;
            }
            if !socket.may_send() {
                continue;
            }
            let want = match self.program {
                Program::Pour => u64::MAX,
                Program::Drain => 0,
                Program::Ask(bytes) => {
                    if connection.written > 0
                        && connection.read * bytes == connection.written * ANSWER
                    {
                        self.latencies.push(now - connection.asked_at);
                    }
                    let asked = connection.read / ANSWER * bytes;
                    if asked == connection.written {
                        connection.asked_at = now;
                    }
                    asked + bytes - connection.written
                }
                Program::Answer(bytes) => connection.read / bytes * ANSWER - connection.written,
            };
            while socket.can_send() && want > 0 {
                let most = want.min(1 << 30) as usize;
                let count = socket.send(|room| (room.len().min(most), room.len().min(most)));
                connection.written += count.expect("open") as u64;
                if want < u64::MAX {
                    break;
                }
            }
        }
    }
}

impl Host for Tcp {
    fn receive(&mut self, now: Instant, datagram: &Datagram) {
        self.queues.came.push_back(datagram.payload.clone());
        if self.queues.leaves.is_none() {
            self.poll(now);
        }
    }

    fn transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Leaving> {
        if self.queues.leaves.is_none() {
            self.poll(now);
        }
        let packet = self.queues.leaves.take()?;
        out[..packet.len()].copy_from_slice(&packet);
        Some(Leaving {
            length: packet.len(),
            ecn: Ecn::NotCapable,
            overhead: OVERHEAD,
            addresses: self.addresses,
        })
    }

    fn deadline(&self) -> Option<Instant> {
        self.next
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }

    fn latencies(&self) -> &[Duration] {
        &self.latencies
    }
}
