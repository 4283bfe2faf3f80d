//! The hosts of the peers file, and what becomes of them when it is read anew.

use std::net::{IpAddr, SocketAddr};

use netstack::time::Instant;

use super::daemon::Nicd;
use super::host::Host;
use super::peers::{Peer, Peers, is_here};
use super::say;

impl Nicd {
    /// SIGHUP: reads the peers file. One that is wrong changes nothing.
    pub(super) fn reload(&mut self, time: Instant) {
        let path = self.peers_file.display().to_string();
        let peers = Peers::load(&self.peers_file).map_err(|why| why.to_string());
        match peers.and_then(|peers| self.take_peers(peers, time)) {
            Ok(()) => say!("{path}: read, {} other hosts", self.others().len()),
            Err(why) => say!("{path}: {why}; nothing has changed"),
        }
    }

    /// From now on these are our peers.
    pub(super) fn take_peers(&mut self, peers: Peers, time: Instant) -> Result<(), String> {
        let own = peers.own(&self.identity.public(), is_here);
        let own = own.map_err(|why| why.to_string())?;
        let me = peers.get(own).ok_or("no line for this host")?.clone();
        if me.control != self.me.control {
            return Err("this host has another address there: restart nicd".to_owned());
        }
        self.me = me;
        self.by_peer = peers
            .iter()
            .map(|peer| (peer.index != own).then(|| self.host_for(peer, time)))
            .collect();
        self.peers = peers;
        // They were to be somebody of the old file.
        self.callers.clear();
        self.part_with_unlisted(time);
        Ok(())
    }

    /// A host is the same as long as its daemon listens at the same address.
    fn host_for(&mut self, peer: &Peer, time: Instant) -> usize {
        let is_it = |host: &Host| host.control == Some(peer.control);
        let number = self.hosts.iter().position(is_it).unwrap_or_else(|| {
            self.hosts.push(Host::default());
            self.hosts.len() - 1
        });
        let host = &mut self.hosts[number];
        host.control = Some(peer.control);
        if host.peer.replace(peer.clone()).is_none() {
            host.call_at = Some(time);
        }
        number
    }

    /// Hosts, keys and addresses that are not in the file any more.
    fn part_with_unlisted(&mut self, time: Instant) {
        for number in 0..self.hosts.len() {
            if !self.by_peer.contains(&Some(number)) {
                self.hosts[number].peer = None;
                self.leave_route(number);
                self.hang_up(number, "it is not in the peers file any more", time);
                self.hosts[number].call_at = None;
                self.hosts[number].try_at = None;
            }
            let host = &self.hosts[number];
            let key = host.channel.as_ref().and_then(|channel| channel.key());
            let listed = |peer: &Peer| key.is_none_or(|key| peer.keys.contains(&key));
            if host.peer.is_some() && !host.peer.as_ref().is_some_and(listed) {
                // Whoever has that key may be at the other end of the link, too.
                self.leave_route(number);
                self.hang_up(number, "its key is not in the peers file any more", time);
            }
        }
        for id in self.connections.ids() {
            let connection = self.connections.get(id);
            let moved = connection.is_some_and(|connection| {
                self.behind(connection.tuple.remote.ip()) != Some(connection.host)
            });
            if moved {
                self.dismiss(id, time);
            }
        }
    }

    /// The host that serves an address, if it is another one.
    pub(super) fn behind(&self, ip: IpAddr) -> Option<usize> {
        *self.by_peer.get(self.peers.behind(ip)?)?
    }

    /// All hosts that are listed.
    pub(super) fn others(&self) -> Vec<usize> {
        self.by_peer.iter().copied().flatten().collect()
    }

    /// Where the daemon of a host listens.
    pub(super) fn control(&self, host: usize) -> SocketAddr {
        self.hosts[host].control.expect("every host has one")
    }

    /// How a host is called in what we say.
    pub(super) fn title(&self, host: usize) -> String {
        let control = self.control(host);
        let name = self.hosts[host]
            .peer
            .as_ref()
            .and_then(|peer| peer.name.as_ref());
        name.map_or_else(|| control.to_string(), |name| format!("{name} ({control})"))
    }
}
