//! The same with smoltcp's TCP: two interfaces in one process, from frame to frame. Checksums are left
//! to the device, which computes none.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

use crate::link::SIZE;

const RING: usize = 64 << 10;
const PORT: u16 = 4690;

/// Room for a frame in each direction; empty if there is none.
pub struct Port {
    incoming: Vec<u8>,
    arrived: bool,
    outgoing: Vec<u8>,
}

pub struct Received<'a>(&'a [u8]);
pub struct Room<'a>(&'a mut Vec<u8>);

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        self.0.resize(length, 0);
        f(self.0)
    }
}

impl Device for Port {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Room<'_>)> {
        let arrived = std::mem::take(&mut self.arrived);
        arrived.then_some((Received(&self.incoming), Room(&mut self.outgoing)))
    }

    /// One at a time.
    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        self.outgoing.is_empty().then_some(Room(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

pub struct TcpHost {
    interface: Interface,
    port: Port,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl TcpHost {
    fn new(me: u8) -> TcpHost {
        let mut port = Port {
            incoming: Vec::with_capacity(2048),
            arrived: false,
            outgoing: Vec::with_capacity(2048),
        };
        let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, me]).into());
        let mut interface = Interface::new(config, &mut port, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let address = IpCidr::new(IpAddress::v4(10, 0, 0, me), 24);
            addresses.push(address).expect("room for an address");
        });
        let buffer = || SocketBuffer::new(vec![7; RING].leak());
        let mut sockets = SocketSet::new(vec![SocketStorage::EMPTY].leak());
        let socket = sockets.add(Socket::new(buffer(), buffer()));
        TcpHost {
            interface,
            port,
            sockets,
            socket,
        }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Takes in the frame that has arrived, if one has, and sends what is due.
    pub fn poll(&mut self, now: Instant) {
        self.interface.poll(now, &mut self.port, &mut self.sockets);
    }

    /// Sends a message.
    pub fn send_message(&mut self, now: Instant, message: &[u8; SIZE]) {
        let taken = self.socket().send_slice(message);
        assert_eq!(taken, Ok(SIZE));
        self.poll(now);
    }

    pub fn read(&mut self) -> usize {
        self.socket()
            .recv(|bytes| (bytes.len(), bytes.len()))
            .unwrap_or(0)
    }

    /// The frame that this host has sent arrives at the other; `false` if there is none.
    pub fn pass_to(&mut self, other: &mut TcpHost) -> bool {
        if self.port.outgoing.is_empty() {
            return false;
        }
        other.port.incoming.clear();
        other.port.incoming.append(&mut self.port.outgoing);
        other.port.arrived = true;
        true
    }
}

/// Two hosts with one connection.
pub struct TcpPair {
    pub now: Instant,
    pub from: TcpHost,
    pub to: TcpHost,
}

impl TcpPair {
    pub fn new() -> TcpPair {
        let mut pair = TcpPair {
            now: Instant::ZERO,
            from: TcpHost::new(1),
            to: TcpHost::new(2),
        };
        pair.to.socket().listen(PORT).expect("a port");
        let TcpHost {
            interface,
            sockets,
            socket,
            ..
        } = &mut pair.from;
        let peer = (IpAddress::v4(10, 0, 0, 2), PORT);
        sockets
            .get_mut::<Socket>(*socket)
            .connect(interface.context(), peer, 5000)
            .expect("a connection");
        for _ in 0..1000 {
            pair.from.poll(pair.now);
            pair.from.pass_to(&mut pair.to);
            pair.to.poll(pair.now);
            pair.to.pass_to(&mut pair.from);
            pair.pass(Duration::from_millis(20));
        }
        assert_eq!(pair.from.socket().state(), State::Established);
        pair
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Nothing is under way.
    pub fn is_even(&mut self) -> bool {
        self.from.socket().send_queue() == 0 && self.to.socket().recv_queue() == 0
    }
}

impl Default for TcpPair {
    fn default() -> TcpPair {
        TcpPair::new()
    }
}
