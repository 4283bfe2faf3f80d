//! Hosts that say nothing. A link with nothing under way notices nothing by itself (`[R9]`), and neither does a
//! program that waits with nothing unacknowledged; so links that carry connections are asked.
//!
//! Nothing comes from a host that is gone. The second sweep after that asks, and `[R7]` ends the link: five seconds
//! later in all (two [`SWEEP`](super::daemon) and the deadline of the link), every connection to that host is back on
//! the kernel, with a record under way that nobody acknowledges. The rest is up to the timers of kernel TCP.

use std::time::Duration;

use super::connection::{Connection, Stage};
use super::daemon::Nicd;
use super::engine_messages::Command;
use super::host::Host;
use super::secure::IDLE;

/// Of channels that no connection needs, so many are asked in a second, and so many hosts are called in vain. A thousand hosts
/// that do nothing shall not keep each other busy.
const IDLE_EACH_SECOND: u32 = 10;

impl Nicd {
    /// With every sweep.
    pub(super) fn ask_quiet_links(&mut self) {
        let mut carrying = vec![false; self.hosts.len()];
        let mut used = vec![false; self.hosts.len()];
        for (_, connection) in self.connections.iter() {
            used[connection.host] = true;
            carrying[connection.host] |= is_carried(connection);
        }
        for host in self.others() {
            self.be_patient(host, used[host]);
            let Some(route) = self.hosts[host].route else {
                continue;
            };
            let link = self.interfaces[route.interface].engine.link(route.peer);
            let heard = link.map_or(0, |link| link.counters().packets_received);
            let before = std::mem::replace(&mut self.hosts[host].heard, heard);
            if heard == before && carrying[host] {
                self.ask_link(host);
            }
        }
    }

    /// The kernel asks on a quiet channel whether the other host is still there: soon, if connections depend on it, and
    /// otherwise the less often the more peers there are.
    pub(super) fn be_patient(&mut self, host: usize, is_used: bool) {
        let usual = each_in_turn(self.peers.len());
        let silence = if is_used { IDLE } else { usual.max(IDLE) };
        let host = &mut self.hosts[host];
        if let Some(channel) = host.channel.as_ref().filter(|_| host.patience != silence) {
            channel.be_patient(silence);
            host.patience = silence;
        }
    }

    /// Between two calls to a host that does not answer. It calls by itself when it is back.
    pub(super) fn longest_pause(&self) -> Duration {
        let away = |host: &&Host| host.peer.is_some() && !host.is_in_touch();
        each_in_turn(self.hosts.iter().filter(away).count())
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

/// How long it takes to come round to so many.
fn each_in_turn(hosts: usize) -> Duration {
    Duration::from_secs(1) * hosts as u32 / IDLE_EACH_SECOND
}

/// Our own engine carries it, or a program's; of those we hear by our link.
fn is_carried(connection: &Connection) -> bool {
    matches!(connection.stage, Stage::Served(_) | Stage::Inline)
}
