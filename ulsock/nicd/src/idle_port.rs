//! An open port costs the kernel something for every frame of its interface, also for those that are none of
//! ours. So a port is open while there is a connection that goes by it or can, and a while longer.
//!
//! A link comes up when the daemons get in touch, which shows that the port can be had and that the route leads
//! there. Later it gets up when both ends of a connection have been shown: both daemons know that at about the
//! same time, and both greet, so that whoever opens its port last is heard by the other.

use std::time::Duration;

use netstack::time::Instant;

use super::connection::{Connection, Stage};
use super::daemon::Nicd;
use super::engine_messages::Command;
use super::interface::Interface;
use super::say;

/// A port that nobody has needed for so long is closed.
const PORT_IDLE_TIMEOUT: Duration = Duration::from_secs(3);

impl Nicd {
    /// The link to a host shall be up, as far as that goes now.
    pub(super) fn want(&mut self, host: usize, time: Instant) {
        self.hosts[host].at_rest = false;
        self.reach(host, time);
        if let Some(route) = self.hosts[host].route {
            self.interfaces[route.interface].needed = time;
        }
    }

    /// The link to a host is down, and stays so until somebody wants it.
    pub(super) fn put_to_rest(&mut self, host: usize) {
        self.hosts[host].at_rest = true;
        self.hosts[host].up = false;
        self.hosts[host].try_at = None;
    }

    /// Some connection to a host goes by the NIC, or can.
    pub(super) fn is_needed(&self, host: usize) -> bool {
        let mut connections = self.connections.iter().map(|(_, connection)| connection);
        connections.any(|connection| connection.host == host && self.needs_link(connection))
    }

    fn needs_link(&self, connection: &Connection) -> bool {
        match connection.stage {
            Stage::Served(_) | Stage::Inline => true,
            Stage::Over => false,
            _ => self.hosts[connection.host].knows_other_end(connection),
        }
    }

    pub(super) fn sweep_interfaces(&mut self, time: Instant) {
        if !self.interfaces.iter().any(Interface::is_open) {
            return;
        }
        let mut needed = vec![false; self.hosts.len()];
        for (_, connection) in self.connections.iter() {
            needed[connection.host] |= self.needs_link(connection);
        }
        for number in 0..self.interfaces.len() {
            if self.interfaces[number].is_open() {
                self.sweep_interface(number, &needed, time);
            }
        }
    }

    fn sweep_interface(&mut self, number: usize, needed: &[bool], time: Instant) {
        let leads = |host: &usize| {
            self.hosts[*host]
                .route
                .is_some_and(|route| route.interface == number)
        };
        let hosts: Vec<usize> = (0..self.hosts.len()).filter(leads).collect();
        if hosts.iter().any(|host| needed[*host]) {
            self.interfaces[number].needed = time;
        } else if time.since(self.interfaces[number].needed) >= PORT_IDLE_TIMEOUT {
            self.close_interface(number, &hosts, time);
        }
    }

    fn close_interface(&mut self, number: usize, hosts: &[usize], time: Instant) {
        for host in hosts {
            self.put_to_rest(*host);
            if let Some(route) = self.hosts[*host].route {
                self.interfaces[number].engine.leave(route.peer);
            }
        }
        let index = self.interfaces[number].index;
        self.tell_threads(|| Command::Close { interface: index });
        let interface = &mut self.interfaces[number];
        // The peers hear of it, if that is possible: one that does not finds out when it is needed ([H4]).
        interface.poll(time);
        interface.close();
        say!(
            "interface {}: nobody needs it, closed until somebody does",
            interface.name
        );
        self.prod = true;
    }
}
