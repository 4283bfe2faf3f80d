//! One interface: its port, and the engine that serves all peers behind it.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use firmware::{Bells, EndpointId, Engine, Rest};
use netstack::link::ACK_DELAY;
use netstack::link::window::Adaptive;
use netstack::phy::xdp::{self, Mode, Refusal, Steering};
use netstack::phy::{
    self, Ivshmem, PacketPort, Port, Trouble, UdpPort, Wanted, Xdp, ivshmem, packet,
};
use netstack::port::{Capabilities, Frame, PortCounters};
use netstack::ring::{Slots, Tripwire};
use netstack::time::Instant;
use netstack::wire::Addresses;
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::connection::ConnectionId;
use super::impair::Impairment;
use rendezvous::engine_endpoint::Block;
use rendezvous::pair::Pair;
use shm::layout::OFFERER;

/// How frames get to the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// AF_PACKET: everywhere.
    Packet,
    /// AF_XDP: past the kernel's protocols.
    Xdp,
    /// UDP sockets of the kernel: on any network.
    Udp,
    /// To other virtual machines of this one's host, by the memory that they share.
    Ivshmem,
}

/// How all ports of the daemon are made.
#[derive(Clone, Debug)]
pub struct Make {
    pub kind: PortKind,
    /// Of the shared memory.
    pub device: PathBuf,
    /// Of ours and of the peers' frames.
    pub udp: u16,
    pub impairment: Option<Impairment>,
}

/// Why an interface has no port.
#[derive(Debug)]
pub enum NoPort {
    Interface(Errno),
    Packet(Errno),
    Steering(Refusal),
    Xdp(Errno),
    Udp(Errno),
    /// A peer that has no socket yet.
    Peer(Trouble),
    /// Of this path.
    Ivshmem(PathBuf, Errno),
}

impl PortKind {
    /// As `--port` has it.
    pub fn name(self) -> &'static str {
        match self {
            PortKind::Packet => "packet",
            PortKind::Xdp => "xdp",
            PortKind::Udp => "udp",
            PortKind::Ivshmem => "ivshmem",
        }
    }
}

impl fmt::Display for NoPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPort::Interface(errno) => write!(f, "the interface cannot be used: {errno}"),
            NoPort::Packet(Errno::PERM | Errno::ACCESS) => {
                f.write_str("no packet socket: run nicd as root, or give it CAP_NET_RAW")
            }
            NoPort::Packet(errno) => write!(f, "no packet socket: {errno}"),
            NoPort::Steering(why) => write!(f, "{why}: use --port packet"),
            NoPort::Xdp(errno) => write!(f, "no XDP socket ({errno}): use --port packet"),
            NoPort::Udp(errno) => write!(f, "no UDP sockets: {errno}"),
            NoPort::Peer(trouble) => write!(f, "no UDP socket to it: {trouble:?}"),
            NoPort::Ivshmem(device, Errno::NOENT) => {
                let device = device.display();
                write!(
                    f,
                    "there is no {device}: load the module ulnic, or name its --device"
                )
            }
            NoPort::Ivshmem(device, Errno::ADDRINUSE) => {
                let device = device.display();
                write!(f, "{device} serves another interface, or another nicd")
            }
            NoPort::Ivshmem(device, errno) => write!(f, "{}: {errno}", device.display()),
        }
    }
}

pub type InterfaceEngine = Engine<Block, Adaptive>;

pub struct Interface {
    pub index: u32,
    pub name: String,
    /// Our own addresses that frames come to.
    addresses: Vec<IpAddr>,
    /// Where the engine's peers are: a new port has to know them, too.
    peers: Vec<Addresses>,
    make: Make,
    pub port: Box<dyn Port>,
    is_open: bool,
    /// Of the port that is open, or was.
    pub mtu: usize,
    /// When somebody needed it last.
    pub needed: Instant,
    pub engine: InterfaceEngine,
    pub ropes: Ropes,
    pub trouble: Option<Trouble>,
}

impl Interface {
    pub fn open(
        make: Make,
        index: u32,
        address: IpAddr,
        now: Instant,
    ) -> Result<Interface, NoPort> {
        let addresses = vec![address];
        let (name, port) = make.open(index, &addresses)?;
        Ok(Interface {
            index,
            name,
            addresses,
            peers: Vec::new(),
            make,
            mtu: port.capabilities().mtu,
            port,
            is_open: true,
            needed: now,
            engine: Engine::default(),
            ropes: Ropes::default(),
            trouble: None,
        })
    }

    /// Whether frames to this address of ours come here; if not, the port has to be opened anew.
    pub fn serves(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Opens the port anew, for this address too.
    pub fn reopen(&mut self, address: IpAddr, now: Instant) -> Result<(), NoPort> {
        if !self.serves(address) {
            self.addresses.push(address);
        }
        // The old one goes first: a queue has one socket, an interface one program.
        self.close();
        let (name, mut port) = self.make.open(self.index, &self.addresses)?;
        for ends in &self.peers {
            port.meet(ends).map_err(NoPort::Peer)?;
        }
        self.mtu = port.capabilities().mtu;
        (self.name, self.port, self.trouble) = (name, port, None);
        (self.is_open, self.needed) = (true, now);
        Ok(())
    }

    /// The engine will have a peer there.
    pub fn meet(&mut self, ends: Addresses) -> Result<(), NoPort> {
        self.port.meet(&ends).map_err(NoPort::Peer)?;
        if !self.peers.contains(&ends) {
            self.peers.push(ends);
        }
        Ok(())
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn kind(&self) -> PortKind {
        self.make.kind
    }

    /// Whether its frames are of IPv6: all hosts have addresses of one family.
    pub fn is_ipv6(&self) -> bool {
        self.addresses.iter().any(IpAddr::is_ipv6)
    }

    /// The interface is gone, or nobody needs it. The engine may still have to part with its peers.
    pub fn close(&mut self) {
        self.port = Box::new(Nowhere(vec![0; 1 << 16]));
        self.is_open = false;
    }

    pub fn poll(&mut self, now: Instant) -> Rest {
        self.engine.poll(now, &mut self.port, &mut self.ropes)
    }
}

/// One poll of each, by their thread, which says whether it expects news soon. Whether there is more to do, and when their
/// engines want to be polled again.
pub fn poll_all(
    interfaces: &mut [Interface],
    expects: bool,
    time: Instant,
) -> (bool, Option<Instant>) {
    let (mut busy, mut due) = (false, None::<Instant>);
    for interface in interfaces {
        interface.engine.expect_answers(expects);
        let rest = interface.poll(time);
        busy |= rest.busy;
        due = due.into_iter().chain(rest.deadline).min();
    }
    (busy, due)
}

/// Frames that have come to them and gone.
pub fn frames(interfaces: &[Interface]) -> u64 {
    let counters = interfaces.iter().map(|it| it.engine.counters());
    counters.map(|it| it.frames_received + it.frames_sent).sum()
}

/// `[P4]` Their thread is about to sleep until `due`: acknowledgements that would wake it at once leave before. `true`:
/// the next poll sends them.
pub fn hurry(interfaces: &mut [Interface], time: Instant, due: Option<Instant>) -> bool {
    if due.is_none_or(|due| due > time + ACK_DELAY) {
        return false;
    }
    let all = interfaces.iter_mut();
    all.fold(false, |any, interface| interface.engine.hurry(time) | any)
}

impl Make {
    /// The interface's name, and a port to it.
    fn open(&self, index: u32, addresses: &[IpAddr]) -> Result<(String, Box<dyn Port>), NoPort> {
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let name = socket.and_then(|socket| index_to_name(socket.as_fd(), index));
        let name = name.map_err(NoPort::Interface)?;
        let port = match self.kind {
            PortKind::Udp => {
                let mtu = phy::Interface::mtu_of(&name).map_err(NoPort::Interface)?;
                Box::new(UdpPort::new(mtu).map_err(NoPort::Udp)?)
            }
            _ => self.port_of_frames(&name, addresses)?,
        };
        let port = match &self.impairment {
            Some(impairment) => impairment.wrap(port),
            None => port,
        };
        Ok((name, port))
    }

    fn port_of_frames(&self, name: &str, addresses: &[IpAddr]) -> Result<Box<dyn Port>, NoPort> {
        let interface = &phy::Interface::find(name).map_err(NoPort::Interface)?;
        let wanted = &Wanted {
            port: self.udp,
            addresses: addresses.to_vec(),
        };
        Ok(match self.kind {
            PortKind::Packet | PortKind::Udp => {
                let port = PacketPort::open(interface, wanted, packet::PacketOptions::default());
                Box::new(port.map_err(NoPort::Packet)?)
            }
            PortKind::Xdp => {
                let mode = Mode::best(interface);
                let steering = Steering::attach(interface, wanted, mode);
                let steering = Arc::new(steering.map_err(NoPort::Steering)?);
                let port = Xdp::open(&steering, xdp::XdpOptions::default());
                Box::new(port.map_err(NoPort::Xdp)?)
            }
            PortKind::Ivshmem => {
                let phy::Interface { mtu, address, .. } = *interface;
                let options = ivshmem::IvshmemOptions::of_daemon(self.device.clone(), mtu, address);
                let port = Ivshmem::open(&options);
                Box::new(port.map_err(|errno| NoPort::Ivshmem(options.device, errno))?)
            }
        })
    }
}

/// The port of an interface that has none: all that is sent is lost.
struct Nowhere(Vec<u8>);

impl Port for Nowhere {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: 1500,
            address: [0; 6],
            offload: Default::default(),
        }
    }

    fn receive(&mut self, _now: Instant) -> Option<Frame<'_>> {
        None
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.0)
    }

    fn commit(&mut self, _length: usize) {}

    fn flush(&mut self, _now: Instant) -> Result<(), Trouble> {
        Ok(())
    }

    fn counters(&mut self) -> PortCounters {
        PortCounters::default()
    }
}

/// How the engine reaches the programs that it serves.
#[derive(Default)]
pub struct Ropes {
    by_endpoint: HashMap<EndpointId, Rope>,
    /// Connections that the daemon itself has to look after: their wires have been tripped.
    pub own: Vec<ConnectionId>,
}

struct Rope {
    connection: ConnectionId,
    block: Block,
    /// `None`: the program is gone, or has left the connection to us.
    pair: Option<Arc<Pair>>,
}

impl Ropes {
    pub fn tie(
        &mut self,
        endpoint: EndpointId,
        connection: ConnectionId,
        block: Block,
        pair: Arc<Pair>,
    ) {
        let rope = Rope {
            connection,
            block,
            pair: Some(pair),
        };
        self.by_endpoint.insert(endpoint, rope);
    }

    /// Whose endpoint it is.
    pub fn connection(&self, endpoint: EndpointId) -> Option<ConnectionId> {
        Some(self.by_endpoint.get(&endpoint)?.connection)
    }

    /// The program does not listen any more: we do.
    pub fn take_over(&mut self, endpoint: EndpointId) {
        if let Some(rope) = self.by_endpoint.get_mut(&endpoint) {
            rope.pair = None;
        }
    }

    /// Whose endpoint it was.
    pub fn untie(&mut self, endpoint: EndpointId) -> Option<ConnectionId> {
        Some(self.by_endpoint.remove(&endpoint)?.connection)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_endpoint.len()
    }
}

impl Bells for Ropes {
    fn ring(&mut self, endpoint: EndpointId, wire: &Tripwire, slots: Slots) {
        let Some(rope) = self.by_endpoint.get(&endpoint) else {
            return;
        };
        let Some(pair) = &rope.pair else {
            self.own.push(rope.connection);
            return;
        };
        let mut left = slots;
        while left != 0 {
            let name = wire.name(left.trailing_zeros() as usize);
            left &= left - 1;
            pair.ring(&rope.block.segment, OFFERER, rope.block.conn, name);
        }
    }
}
