//! The ways to other hosts: where the kernel would go, and the engine that goes there.

use std::fmt;
use std::time::Duration;

use firmware::PeerId;
use netstack::link::window::Adaptive;
use netstack::link::{self, Config, Identity};
use netstack::phy::route::{Change, Hop, Neighbour, Unfit};
use netstack::phy::Trouble;
use netstack::time::Instant;
use netstack::wire::Addresses;

use super::daemon::Nicd;
use super::host::Way;
use super::lane::{Lane, NoPort};
use super::say;
use super::set::Source;

/// After a link that did not come up, or a way that was not found.
const RETRY: Duration = Duration::from_secs(1);
/// A neighbour that the kernel has not heard of for long: it does not see our traffic.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Why a host cannot be reached by the NIC.
enum NoWay {
    Route(Unfit),
    /// The kernel has been asked for the neighbour, and will tell.
    Unresolved,
    Port(NoPort),
    /// Its address is of another family than ours.
    Family,
}

impl NoWay {
    fn is_for_good(&self) -> bool {
        match self {
            NoWay::Route(Unfit::Unreachable(_) | Unfit::Down | Unfit::Failed(_)) => false,
            NoWay::Route(_) | NoWay::Family => true,
            NoWay::Unresolved | NoWay::Port(_) => false,
        }
    }
}

impl fmt::Display for NoWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoWay::Route(why) => why.fmt(f),
            NoWay::Unresolved => f.write_str("its hardware address is not known yet"),
            NoWay::Port(why) => why.fmt(f),
            NoWay::Family => f.write_str("it has IPv4 and we IPv6, or the other way round"),
        }
    }
}

impl Nicd {
    /// Gets the link to a host up, as far as that goes now.
    pub(super) fn reach(&mut self, host: usize, time: Instant) {
        self.hosts[host].try_at = Some(time + RETRY);
        match self.find_way(host, time) {
            Ok(_) if self.hosts[host].at_rest => self.stay_at_rest(host),
            Ok(way) => self.greet(host, way, time),
            Err(NoWay::Unresolved) => self.set_unfit(host, &NoWay::Unresolved),
            Err(why) => {
                self.leave_way(host);
                self.set_unfit(host, &why);
            }
        }
    }

    fn set_unfit(&mut self, host: usize, why: &NoWay) {
        self.hosts[host].hopeless = why.is_for_good();
        let why = why.to_string();
        if self.hosts[host].unfit.as_ref() != Some(&why) {
            say!("{}: not by the NIC: {why}", self.title(host));
        }
        self.hosts[host].unfit = Some(why);
    }

    /// The way is there when it is needed.
    fn stay_at_rest(&mut self, host: usize) {
        self.set_fit(host);
        self.hosts[host].try_at = None;
    }

    fn set_fit(&mut self, host: usize) {
        self.hosts[host].unfit = None;
        self.hosts[host].hopeless = false;
    }

    fn greet(&mut self, host: usize, way: Way, time: Instant) {
        self.set_fit(host);
        let lane = &mut self.lanes[way.lane];
        lane.trouble = None;
        if lane.engine.link(way.peer).is_some_and(link::Link::is_up) {
            self.hosts[host].try_at = Some(time + LOOK_AGAIN);
        } else {
            lane.engine.greet(time, way.peer);
            self.prod = true;
        }
    }

    /// Its port is open, unless the host is at rest.
    fn find_way(&mut self, host: usize, time: Instant) -> Result<Way, NoWay> {
        let source = self.me.control.ip();
        let peer = self.control(host).ip();
        let hop = self.routes.find(peer, Some(source)).map_err(NoWay::Route)?;
        let neighbour = self.routes.neighbour(&hop);
        let neighbour = neighbour.map_err(|why| NoWay::Route(Unfit::Failed(why)))?;
        if !matches!(neighbour, Neighbour::Fresh(_)) {
            // It may lack the right to: then the kernel's own traffic has to do.
            let _ = self.routes.resolve(&hop);
        }
        let neighbour = neighbour.address().ok_or(NoWay::Unresolved)?;
        let way = self.take_way(host, hop, neighbour, time)?;
        if !self.hosts[host].at_rest && !self.lanes[way.lane].is_open() {
            let reopened = self.lanes[way.lane].reopen(way.hop.source, time);
            reopened
                .and_then(|()| self.serve(way.lane))
                .map_err(NoWay::Port)?;
        }
        Ok(way)
    }

    /// The way as it is now; the link goes on if only hardware addresses have changed.
    fn take_way(
        &mut self,
        host: usize,
        hop: Hop,
        neighbour: [u8; 6],
        time: Instant,
    ) -> Result<Way, NoWay> {
        if let Some(old) = self.hosts[host].way {
            let same = Hop {
                hardware: hop.hardware,
                next: hop.next,
                ..old.hop
            };
            if same == hop {
                if (old.hop.hardware, old.neighbour) != (hop.hardware, neighbour) {
                    let engine = &mut self.lanes[old.lane].engine;
                    engine.redirect(old.peer, hop.hardware, neighbour);
                }
                let way = Way {
                    hop,
                    neighbour,
                    ..old
                };
                self.hosts[host].way = Some(way);
                return Ok(way);
            }
            self.leave_way(host);
        }
        let lane = self.lane_for(&hop, time).map_err(NoWay::Port)?;
        let peer = self.add_peer(host, lane, &hop, neighbour)?;
        let way = Way {
            lane,
            peer,
            hop,
            neighbour,
        };
        self.hosts[host].way = Some(way);
        Ok(way)
    }

    fn lane_for(&mut self, hop: &Hop, time: Instant) -> Result<usize, NoPort> {
        let known = self
            .lanes
            .iter()
            .position(|lane| lane.interface == hop.interface);
        let number = match known {
            Some(number) => {
                let lane = &mut self.lanes[number];
                if lane.serves(hop.source) && lane.trouble != Some(Trouble::Gone) {
                    return Ok(number);
                }
                lane.reopen(hop.source, time)?;
                number
            }
            None => {
                let lane = Lane::open(self.make.clone(), hop.interface, hop.source, time)?;
                self.lanes.push(lane);
                self.lanes.len() - 1
            }
        };
        self.serve(number)?;
        Ok(number)
    }

    /// A port has been opened.
    fn serve(&self, number: usize) -> Result<(), NoPort> {
        let lane = &self.lanes[number];
        if let Some(wake) = lane.port.wake() {
            let added = self.set.add(Source::Lane(number as u32), wake);
            added.map_err(NoPort::Interface)?;
        }
        say!("serving interface {} ({:?})", lane.name, self.make.kind);
        Ok(())
    }

    fn add_peer(
        &mut self,
        host: usize,
        lane: usize,
        hop: &Hop,
        neighbour: [u8; 6],
    ) -> Result<PeerId, NoWay> {
        let (theirs, ours) = (self.control(host), self.me.control);
        let ends = |source, destination| Addresses {
            source,
            destination,
        };
        let way = link::Way {
            outgoing: ends(ours, theirs),
            incoming: ends(theirs, ours),
        };
        let random = || os::random().map_err(|why| NoWay::Route(Unfit::Failed(why)));
        let identity = Identity {
            incarnation: random()?,
            tag: random()? as u32,
            secret: [random()?, random()?],
        };
        let lane = &mut self.lanes[lane];
        let mut config = Config::new(identity, vec![way]);
        config.mtu = hop.mtu.min(lane.mtu);
        let window = Adaptive::new();
        lane.engine
            .add_peer(config, hop.hardware, neighbour, window)
            .ok_or(NoWay::Family)
    }

    /// There is no way any more, or another one: the link ends, and programs go back to the kernel.
    pub(super) fn leave_way(&mut self, host: usize) {
        if let Some(way) = self.hosts[host].way.take() {
            self.lanes[way.lane].engine.retire(way.peer);
            self.end_leases_to(host);
            self.hosts[host].up = false;
            self.prod = true;
        }
    }

    /// Routes, neighbours or interfaces have changed: those ways are looked for again.
    pub(super) fn hear_changes(&mut self, time: Instant) {
        let mut changes = Vec::new();
        let _ = self.watch.changes(|change| changes.push(change));
        for host in 0..self.hosts.len() {
            let known = &self.hosts[host];
            let concerns = |change: &Change| match (change, &known.way) {
                (Change::Neighbour { address, .. }, Some(way)) => *address == way.hop.next,
                (Change::Interface(index), Some(way)) => *index == way.hop.interface,
                _ => true,
            };
            if known.is_in_touch() && changes.iter().any(concerns) {
                self.reach(host, time);
            }
        }
    }

    /// Frames wake us by themselves; here the port may report trouble.
    pub(super) fn hear_port(&mut self, number: usize, time: Instant) {
        let Some(lane) = self.lanes.get_mut(number) else {
            return;
        };
        let Some(trouble) = lane.port.trouble() else {
            return;
        };
        say!("interface {}: {trouble:?}", lane.name);
        lane.trouble = Some(trouble);
        if trouble == Trouble::Gone {
            lane.close();
        }
        for host in 0..self.hosts.len() {
            if self.hosts[host].way.is_some_and(|way| way.lane == number) {
                self.reach(host, time);
            }
        }
    }
}
