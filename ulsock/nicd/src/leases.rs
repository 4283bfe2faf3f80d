//! Leases: a UDP port for the engine inside a program, with a queue of the NIC or with UDP sockets.
//!
//! Whoever has a queue can send any frame, so it is for users that this host's administrator trusts with that
//! (`--lease-to`). It is a packet socket, whose filter cannot be changed. All others get a UDP socket for each
//! route, connected to the engine at its other end: with it they can do what any program can. A connection goes
//! by such engines if both its programs have one; else our own carries it.

use std::net::SocketAddr;

use netstack::failover::Segment as _;
use netstack::phy::packet::{self, Queue};
use netstack::phy::udp::Connected;
use netstack::phy::{self, Reserved, Wanted};
use netstack::wire::Addresses;
use rustix::io::Errno;

use super::connection::{ConnectionId, Stage};
use super::daemon::Nicd;
use super::host::Route;
use super::lease::{FreePort, Lease, LeaseKind};
use super::say;
use super::shares::MOST_PORTS;
use rendezvous::message::{self, Message};
use rendezvous::pair::Pair;

/// Routes of one engine: each is a descriptor of the program's.
const MOST_ROUTES: usize = 64;

impl Nicd {
    /// A program wants an engine of its own.
    pub(super) fn hear_ask(&mut self, number: u32) {
        if let Some(program) = self.programs.get_mut(&number) {
            program.asks = true;
        }
    }

    /// The UDP port of the program's own engine, for connections to that host; 0: it has none.
    pub(super) fn lease_for(&mut self, number: u32, host: usize) -> u16 {
        let Some(route) = self.hosts[host].route else {
            return 0;
        };
        let program = self.programs.get(&number);
        match program.map(|program| (program.asks, &program.lease)) {
            Some((_, Some(lease))) if lease.leads(&route) => lease.udp,
            Some((true, None)) => self.lease(number, &route).unwrap_or(0),
            _ => 0,
        }
    }

    fn lease(&mut self, number: u32, route: &Route) -> Option<u16> {
        let who = self.programs.get(&number)?.pair.peer();
        let port = self.free_port(who.uid)?;
        let udp = port.udp;
        let trusted = self.lease_to.contains(&who.uid);
        let kind = match trusted && self.give_queue(number, route, udp) {
            true => LeaseKind::Queue,
            false => LeaseKind::Sockets,
        };
        let program = self.programs.get_mut(&number)?;
        program.lease = Some(Lease::new(kind, port, route));
        let name = &self.interfaces[route.interface].name;
        say!("pid {} has UDP port {udp} of {name} ({kind:?})", who.pid);
        Some(udp)
    }

    /// A port that nobody has a socket of, whoever had it before: so no one else gets what is sent to the program.
    /// `None`: there is none, or its user has its share.
    fn free_port(&self, uid: u32) -> Option<FreePort> {
        let held = [
            self.shares.ports.take(uid, 1)?,
            self.shares.descriptors.take(uid, 1)?,
        ];
        let own = self.me.control.port();
        let taken = |udp: &u16| {
            let mut leases = self.programs.values().filter_map(|it| it.lease.as_ref());
            leases.any(|lease| lease.udp == *udp)
        };
        let free = (1..=MOST_PORTS).filter_map(|more| own.checked_add(more));
        let reserve = |udp| Some((udp, Reserved::new(udp).ok()?));
        let (udp, reserved) = free.filter(|udp| !taken(udp)).find_map(reserve)?;
        Some(FreePort {
            udp,
            reserved,
            held,
        })
    }

    /// `false`: there is none, or the program does not read.
    fn give_queue(&self, number: u32, route: &Route, udp: u16) -> bool {
        let queue = match self.open_queue(route, udp) {
            Ok(queue) => queue,
            Err(why) => {
                say!("no queue for a program: {why}");
                return false;
            }
        };
        let shape = queue.shape();
        let Ok(mtu) = u16::try_from(shape.mtu) else {
            return false;
        };
        let message = Message::Queue(message::Queue {
            mtu,
            address: shape.address,
            receive_slots: shape.receive_slots,
            send_slots: shape.send_slots,
        });
        let program = self.programs.get(&number);
        program.is_some_and(|it| it.pair.tell(&message, Some(queue.fd())))
    }

    fn open_queue(&self, route: &Route, udp: u16) -> Result<Queue, Errno> {
        let interface = phy::Interface::find(&self.interfaces[route.interface].name)?;
        let wanted = Wanted {
            port: udp,
            addresses: vec![route.hop.source],
        };
        Queue::open(&interface, &wanted, packet::PacketOptions::default())
    }

    /// How the program's own engine gets to that of the peer's program: told once. `None`: one of them has
    /// none, and ours carries the connection.
    pub(super) fn engine_route_for(&mut self, id: ConnectionId) -> Option<u32> {
        let connection = self
            .connections
            .get(id)
            .filter(|connection| connection.lease != 0)?;
        let (host, number) = (connection.host, connection.program?);
        let theirs = self.hosts[host].other_end(&connection.tuple)?.lease;
        let route = self.hosts[host].route.filter(|_| theirs != 0)?;
        let there = SocketAddr::new(self.control(host).ip(), theirs);
        let program = self.programs.get_mut(&number)?;
        let lease = program.lease.as_mut().filter(|lease| lease.leads(&route))?;
        if let Some(known) = lease.routes.get(&(host, theirs)) {
            return Some(*known);
        }
        if lease.routes.len() >= MOST_ROUTES {
            return None;
        }
        let number = lease.count;
        let route = message::Route {
            number,
            ours: SocketAddr::new(lease.address, lease.udp),
            theirs: there,
            source: route.hop.hardware,
            destination: route.neighbour,
            mtu: u16::try_from(route.hop.mtu).unwrap_or(u16::MAX),
        };
        let told = match lease.kind {
            LeaseKind::Queue => program.pair.tell(&Message::Route(route), None),
            LeaseKind::Sockets => tell_socket(&program.pair, route),
        };
        if !told {
            return None;
        }
        lease.count += 1;
        lease.routes.insert((host, theirs), number);
        Some(number)
    }

    /// A host is reached otherwise, or is not one of ours any more: what programs' own engines carry there goes
    /// back to the kernel, and they will need other routes.
    pub(super) fn end_leases_to(&mut self, host: usize) {
        self.freeze_leased_to(host);
        let leases = self.programs.values_mut();
        for lease in leases.filter_map(|program| program.lease.as_mut()) {
            lease.routes.retain(|(known, _), _| *known != host);
        }
    }

    /// What programs' own engines carry to a host goes back to the kernel.
    pub(super) fn freeze_leased_to(&mut self, host: usize) {
        for id in self.connections.ids() {
            let connection = self
                .connections
                .get(id)
                .filter(|connection| connection.host == host);
            let inline = connection.filter(|connection| connection.stage == Stage::Inline);
            if let Some(block) = inline.and_then(|connection| connection.block.as_ref()) {
                block.freeze();
                self.wake(id);
            }
        }
    }
}

/// A route, with the socket that leads there. It is the program's alone.
fn tell_socket(pair: &Pair, route: message::Route) -> bool {
    let ends = Addresses {
        source: route.ours,
        destination: route.theirs,
    };
    let opened = Connected::open(&ends);
    let opened = opened.inspect_err(|why| say!("no socket for a program: {why}"));
    opened.is_ok_and(|socket| {
        let mtu = u16::try_from(socket.mtu()).unwrap_or(u16::MAX);
        let message = Message::Socket(message::Route { mtu, ..route });
        pair.tell(&message, Some(socket.fd()))
    })
}
