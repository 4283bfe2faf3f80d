//! The routes to other hosts: where the kernel would go, and the engine that goes there.

use std::fmt;
use std::time::Duration;

use firmware::PeerId;
use netstack::link::window::Adaptive;
use netstack::link::{self, Config, Identity};
use netstack::phy::Trouble;
use netstack::phy::route::{Change, Hop, Neighbour, Unfit};
use netstack::time::Instant;
use netstack::wire::Addresses;

use super::daemon::Nicd;
use super::engine_messages::Command;
use super::host::Route;
use super::interface::{Interface, NoPort, PortKind};
use super::say;
use super::set::Source;

/// After a link that did not come up, or a route that was not found.
pub const RETRY: Duration = Duration::from_secs(1);
/// A neighbour that the kernel has not heard of for long: it does not see our traffic.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Why a host cannot be reached by the NIC.
enum NoRoute {
    Unfit(Unfit),
    /// The kernel has been asked for the neighbour, and will tell.
    Unresolved,
    Port(NoPort),
    /// Its address is of another family than ours.
    Family,
}

impl NoRoute {
    fn is_for_good(&self) -> bool {
        match self {
            NoRoute::Unfit(Unfit::Unreachable(_) | Unfit::Down | Unfit::Failed(_)) => false,
            NoRoute::Unfit(_) | NoRoute::Family => true,
            NoRoute::Unresolved | NoRoute::Port(_) => false,
        }
    }
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRoute::Unfit(why) => why.fmt(f),
            NoRoute::Unresolved => f.write_str("its hardware address is not known yet"),
            NoRoute::Port(why) => why.fmt(f),
            NoRoute::Family => f.write_str("it has IPv4 and we IPv6, or the other way round"),
        }
    }
}

impl Nicd {
    /// Gets the link to a host up, as far as that goes now.
    pub(super) fn reach(&mut self, host: usize, time: Instant) {
        self.hosts[host].try_at = Some(time + RETRY);
        match self.find_route(host, time) {
            Ok(_) if self.hosts[host].at_rest => self.stay_at_rest(host),
            Ok(route) => self.greet(host, route, time),
            Err(NoRoute::Unresolved) => self.set_unfit(host, &NoRoute::Unresolved),
            Err(why) => {
                self.leave_route(host);
                self.set_unfit(host, &why);
            }
        }
    }

    fn set_unfit(&mut self, host: usize, why: &NoRoute) {
        self.hosts[host].hopeless = why.is_for_good();
        let why = why.to_string();
        if self.hosts[host].unfit.as_ref() != Some(&why) {
            say!("{}: not by the NIC: {why}", self.title(host));
        }
        self.hosts[host].unfit = Some(why);
    }

    /// The route is there when it is needed.
    fn stay_at_rest(&mut self, host: usize) {
        self.set_fit(host);
        self.hosts[host].try_at = None;
    }

    fn set_fit(&mut self, host: usize) {
        self.hosts[host].unfit = None;
        self.hosts[host].hopeless = false;
    }

    fn greet(&mut self, host: usize, route: Route, time: Instant) {
        self.set_fit(host);
        self.reach_by_threads(host, &route);
        let interface = &mut self.interfaces[route.interface];
        interface.trouble = None;
        if interface
            .engine
            .link(route.peer)
            .is_some_and(link::Link::is_up)
        {
            self.hosts[host].try_at = Some(time + LOOK_AGAIN);
        } else {
            interface.engine.greet(time, route.peer);
            self.prod = true;
        }
    }

    /// Its port is open, unless the host is at rest.
    fn find_route(&mut self, host: usize, time: Instant) -> Result<Route, NoRoute> {
        let source = self.me.control.ip();
        let peer = self.control(host).ip();
        // The kernel finds the next hop of its own sockets.
        let is_udp = self.make.kind == PortKind::Udp;
        let hop = match is_udp {
            true => self.kernel_routes.find_any(peer, Some(source)),
            false => self.kernel_routes.find(peer, Some(source)),
        };
        let hop = hop.map_err(NoRoute::Unfit)?;
        let neighbour = match is_udp {
            true => [0; 6],
            false => self.find_neighbour(&hop)?,
        };
        let route = self.take_route(host, hop, neighbour, time)?;
        if !self.hosts[host].at_rest && !self.interfaces[route.interface].is_open() {
            let reopened = self.interfaces[route.interface].reopen(route.hop.source, time);
            reopened
                .and_then(|()| self.serve(route.interface))
                .map_err(NoRoute::Port)?;
        }
        Ok(route)
    }

    fn find_neighbour(&mut self, hop: &Hop) -> Result<[u8; 6], NoRoute> {
        let neighbour = self.kernel_routes.neighbour(hop);
        let neighbour = neighbour.map_err(|why| NoRoute::Unfit(Unfit::Failed(why)))?;
        if !matches!(neighbour, Neighbour::Fresh(_)) {
            // It may lack the right to: then the kernel's own traffic has to do.
            let _ = self.kernel_routes.resolve(hop);
        }
        neighbour.address().ok_or(NoRoute::Unresolved)
    }

    /// The route as it is now; the link goes on if only hardware addresses have changed.
    fn take_route(
        &mut self,
        host: usize,
        hop: Hop,
        neighbour: [u8; 6],
        time: Instant,
    ) -> Result<Route, NoRoute> {
        if let Some(old) = self.hosts[host].route {
            let same = Hop {
                hardware: hop.hardware,
                next: hop.next,
                ..old.hop
            };
            if same == hop {
                if (old.hop.hardware, old.neighbour) != (hop.hardware, neighbour) {
                    let engine = &mut self.interfaces[old.interface].engine;
                    engine.redirect(old.peer, hop.hardware, neighbour);
                }
                let route = Route {
                    hop,
                    neighbour,
                    ..old
                };
                self.hosts[host].route = Some(route);
                return Ok(route);
            }
            self.leave_route(host);
        }
        let interface = self.interface_for(&hop, time).map_err(NoRoute::Port)?;
        let peer = self.add_peer(host, interface, &hop, neighbour)?;
        let route = Route {
            interface,
            peer,
            hop,
            neighbour,
        };
        self.hosts[host].route = Some(route);
        Ok(route)
    }

    fn interface_for(&mut self, hop: &Hop, time: Instant) -> Result<usize, NoPort> {
        let known = self
            .interfaces
            .iter()
            .position(|interface| interface.index == hop.interface);
        let number = match known {
            Some(number) => {
                let interface = &mut self.interfaces[number];
                if interface.serves(hop.source) && interface.trouble != Some(Trouble::Gone) {
                    return Ok(number);
                }
                interface.reopen(hop.source, time)?;
                number
            }
            None => {
                let interface =
                    Interface::open(self.make.clone(), hop.interface, hop.source, time)?;
                self.interfaces.push(interface);
                self.interfaces.len() - 1
            }
        };
        self.serve(number)?;
        Ok(number)
    }

    /// A port has been opened.
    fn serve(&self, number: usize) -> Result<(), NoPort> {
        let interface = &self.interfaces[number];
        if let Some(wake) = interface.port.wake() {
            let added = self.set.add(Source::Interface(number as u32), wake);
            added.map_err(NoPort::Interface)?;
        }
        say!(
            "serving interface {} ({:?})",
            interface.name,
            self.make.kind
        );
        Ok(())
    }

    fn add_peer(
        &mut self,
        host: usize,
        interface: usize,
        hop: &Hop,
        neighbour: [u8; 6],
    ) -> Result<PeerId, NoRoute> {
        let (theirs, ours) = (self.control(host), self.me.control);
        let ends = |source, destination| Addresses {
            source,
            destination,
        };
        let both_ends = link::Way {
            outgoing: ends(ours, theirs),
            incoming: ends(theirs, ours),
        };
        let random = || os::random().map_err(|why| NoRoute::Unfit(Unfit::Failed(why)));
        let identity = Identity {
            incarnation: random()?,
            tag: random()? as u32,
            secret: [random()?, random()?],
        };
        let interface = &mut self.interfaces[interface];
        interface.meet(both_ends.outgoing).map_err(NoRoute::Port)?;
        let mut config = Config::new(identity, vec![both_ends]);
        config.mtu = hop.mtu.min(interface.mtu);
        let window = Adaptive::new();
        interface
            .engine
            .add_peer(config, hop.hardware, neighbour, window)
            .ok_or(NoRoute::Family)
    }

    /// There is no route any more, or another one: the link ends, and programs go back to the kernel.
    pub(super) fn leave_route(&mut self, host: usize) {
        if let Some(route) = self.hosts[host].route.take() {
            self.interfaces[route.interface].engine.retire(route.peer);
            self.tell_threads(|| Command::Leave { host });
            self.end_leases_to(host);
            self.hosts[host].up = false;
            self.hosts[host].threads_up = 0;
            self.prod = true;
        }
    }

    /// Routes, neighbours or interfaces have changed: those routes are looked for again.
    pub(super) fn hear_changes(&mut self, time: Instant) {
        let mut changes = Vec::new();
        let _ = self.watch.changes(|change| changes.push(change));
        for host in 0..self.hosts.len() {
            let known = &self.hosts[host];
            let concerns = |change: &Change| match (change, &known.route) {
                (Change::Neighbour { address, .. }, Some(route)) => *address == route.hop.next,
                (Change::Interface(index), Some(route)) => *index == route.hop.interface,
                _ => true,
            };
            // One that nobody has needed yet has no route, and needs none.
            let is_new = known.at_rest && known.route.is_none();
            if known.is_in_touch() && !is_new && changes.iter().any(concerns) {
                self.reach(host, time);
            }
        }
    }

    /// Frames wake us by themselves; here the port may report trouble.
    pub(super) fn hear_port(&mut self, number: usize, time: Instant) {
        let Some(interface) = self.interfaces.get_mut(number) else {
            return;
        };
        let Some(trouble) = interface.port.trouble() else {
            return;
        };
        say!("interface {}: {trouble:?}", interface.name);
        interface.trouble = Some(trouble);
        if trouble == Trouble::Gone {
            interface.close();
        }
        for host in 0..self.hosts.len() {
            if self.hosts[host]
                .route
                .is_some_and(|route| route.interface == number)
            {
                self.reach(host, time);
            }
        }
    }
}
