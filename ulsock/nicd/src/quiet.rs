//! Hosts that say nothing. A link with nothing under way notices nothing by itself (`[R9]`), and neither does a
//! program that waits with nothing unacknowledged; so links that carry connections are asked.
//!
//! Nothing comes from a host that is gone. The second sweep after that asks, and `[R7]` ends the link: five seconds
//! later in all (two [`SWEEP`](super::daemon) and the deadline of the link), every connection to that host is back on
//! the kernel, with a record under way that nobody acknowledges. The rest is up to the timers of kernel TCP.

use super::connection::{Connection, Stage};
use super::daemon::Nicd;
use super::engine_messages::Command;

impl Nicd {
    /// With every sweep.
    pub(super) fn ask_quiet_links(&mut self) {
        for host in self.others() {
            let Some(route) = self.hosts[host].route else {
                continue;
            };
            let link = self.interfaces[route.interface].engine.link(route.peer);
            let heard = link.map_or(0, |link| link.counters().packets_received);
            let before = std::mem::replace(&mut self.hosts[host].heard, heard);
            if heard == before && self.carries_to(host) {
                self.ask_link(host);
            }
        }
    }

    /// Our own engine, or a program's; of those we hear by our link.
    fn carries_to(&self, host: usize) -> bool {
        let carried =
            |connection: &Connection| matches!(connection.stage, Stage::Served(_) | Stage::Inline);
        let mut connections = self.connections.iter();
        connections.any(|(_, connection)| connection.host == host && carried(connection))
    }

    /// Is it still there?
    pub(super) fn ask_link(&mut self, host: usize) {
        if let Some(route) = self.hosts[host].route {
            self.interfaces[route.interface].engine.ask(route.peer);
            self.tell_threads(|| Command::Ask { host });
            self.prod = true;
        }
    }
}
