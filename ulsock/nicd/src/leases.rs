//! Leases: a queue of the NIC for the engine inside a program.
//!
//! Whoever has one can send any frame, so it is for users that this host's administrator trusts with that
//! (`--lease-to`). The queue is a packet socket for a UDP port of its own, whose filter cannot be changed. A
//! connection goes by such engines if both its programs have one; else our own carries it.

use std::net::SocketAddr;

use netstack::failover::Segment as _;
use netstack::phy::packet::{self, Queue};
use netstack::phy::{self, Reserved, Wanted};
use rustix::io::Errno;

use super::connection::{ConnectionId, Stage};
use super::daemon::Nicd;
use super::host::Route;
use super::lease::Lease;
use super::say;
use rendezvous::message::{self, Message};

/// Leases at a time: as many UDP ports after our own.
const MOST_LEASES: u16 = 256;

impl Nicd {
    /// A program wants an engine of its own.
    pub(super) fn hear_ask(&mut self, number: u32) {
        let Some(program) = self.programs.get_mut(&number) else {
            return;
        };
        let who = program.pair.peer();
        program.asks = self.lease_to.contains(&who.uid);
        if !program.asks {
            say!(
                "pid {} of uid {} wants a queue of its own, and is not in --lease-to: it is served here",
                who.pid,
                who.uid
            );
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
        let (udp, reserved) = self.free_port()?;
        let queue = match self.open_queue(route, udp) {
            Ok(queue) => queue,
            Err(why) => {
                say!("no queue for a program: {why}");
                return None;
            }
        };
        let shape = queue.shape();
        let message = Message::Queue(message::Queue {
            mtu: u16::try_from(shape.mtu).ok()?,
            address: shape.address,
            receive_slots: shape.receive_slots,
            send_slots: shape.send_slots,
        });
        let program = self.programs.get_mut(&number)?;
        if !program.pair.tell(&message, Some(queue.fd())) {
            return None;
        }
        let pid = program.pair.peer().pid;
        program.lease = Some(Lease::new(udp, route, reserved));
        say!(
            "pid {pid} has UDP port {udp} of {}",
            self.interfaces[route.interface].name
        );
        Some(udp)
    }

    fn free_port(&self) -> Option<(u16, Reserved)> {
        let own = self.me.control.port();
        let taken = |udp: &u16| {
            let mut leases = self.programs.values().filter_map(|it| it.lease.as_ref());
            leases.any(|lease| lease.udp == *udp)
        };
        let free = (1..=MOST_LEASES).filter_map(|more| own.checked_add(more));
        free.filter(|udp| !taken(udp))
            .find_map(|udp| Some((udp, Reserved::new(udp).ok()?)))
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
        let number = lease.count;
        let route = message::Route {
            number,
            ours: SocketAddr::new(lease.address, lease.udp),
            theirs: there,
            source: route.hop.hardware,
            destination: route.neighbour,
            mtu: u16::try_from(route.hop.mtu).unwrap_or(u16::MAX),
        };
        if !program.pair.tell(&Message::Route(route), None) {
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
