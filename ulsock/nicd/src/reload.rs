//! The hosts that are peers, and what becomes of them when the peers file is read anew, or its source tells of others.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use netstack::time::Instant;

use super::daemon::Nicd;
use super::host::Host;
use super::peers::{NotListed, Peer, Peers, is_here};
use super::say;
use super::set::Source;

impl Nicd {
    /// SIGHUP: reads the peers file. One that is wrong changes nothing.
    pub(super) fn reload(&mut self, time: Instant) {
        let title = self.roster.title();
        let Some(peers) = self.roster.read_again() else {
            say!("{title}: tells of changes by itself, and is not read anew");
            return;
        };
        let taken = peers.and_then(|peers| {
            let taken = self.take_peers(peers, time);
            taken.map_err(|why| format!("{title}: {why}"))
        });
        match &taken {
            Ok(()) => say!("{title}: read, {} other hosts", self.others().len()),
            Err(why) => say!("{why}; nothing has changed"),
        }
        self.roster.note(taken);
    }

    /// From now on the source tells of changes. Without it, the peers that we have remain.
    pub(super) fn open_roster(&mut self) {
        let mut opened = Ok(());
        if let Some(bell) = self.roster.bell() {
            opened = self.set.add(Source::Roster, bell).map_err(io::Error::from);
        }
        if let Err(why) = opened.and_then(|()| self.roster.begin()) {
            say!("{}: changes are not heard: {why}", self.roster.title());
        }
    }

    /// The source has told of other peers, or what it has told could not be used and is tried again.
    pub(super) fn hear_roster(&mut self, time: Instant) {
        let told = self.roster.changed(time);
        let Some(peers) = told.filter(|_| self.stop_by.is_none()) else {
            return;
        };
        let title = self.roster.title();
        let public = self.identity.public();
        let taken = match peers.own(&public, is_here) {
            Err(why @ NotListed::Neither) => {
                self.leave_all(time);
                Err(format!("{why}: it has left the cluster"))
            }
            _ => self.take_peers(peers.clone(), time).inspect_err(|_| {
                self.roster.put_off(peers, time);
            }),
        };
        match &taken {
            Ok(()) => say!("{title}: {} other hosts", self.others().len()),
            Err(why) if self.roster.is_known_to_fail(why) => {}
            Err(why) => say!("{title}: {why}; {} other hosts", self.others().len()),
        }
        self.roster.note(taken);
    }

    /// What the source has told last did not fit this host, and may do now.
    pub(super) fn tend_roster(&mut self, time: Instant) {
        if self.roster.next_appointment().is_some_and(|it| it <= time) {
            self.hear_roster(time);
        }
    }

    /// This host is not listed any more, so that the others part with it: it parts with all of them.
    fn leave_all(&mut self, time: Instant) {
        self.peers = Peers::default();
        self.by_peer.clear();
        self.callers.clear();
        self.part_with_unlisted(time);
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
        let known = self.hosts.iter().position(is_it);
        let number = known.or_else(|| self.free_host(time)).unwrap_or_else(|| {
            self.hosts.push(Host::default());
            self.hosts.len() - 1
        });
        let host = &mut self.hosts[number];
        host.control = Some(peer.control);
        host.parted = None;
        if host.peer.replace(peer.clone()).is_none() {
            host.call_at = Some(time);
        }
        number
    }

    /// The place of one that we have parted with, and that nothing leads to: sources tell of new addresses for ever.
    fn free_host(&mut self, time: Instant) -> Option<usize> {
        let is_vacant = |it: &usize| self.hosts[*it].is_vacant(time);
        let free: Vec<usize> = (0..self.hosts.len()).filter(is_vacant).collect();
        if free.is_empty() {
            return None;
        }
        let of_connections = self.connections.iter().map(|(_, it)| it.host);
        let used: HashSet<usize> = of_connections.collect();
        let number = free.into_iter().find(|it| !used.contains(it))?;
        self.hosts[number] = Host::default();
        Some(number)
    }

    /// Hosts, keys and addresses that are not in the file any more.
    fn part_with_unlisted(&mut self, time: Instant) {
        let listed: HashSet<usize> = self.others().into_iter().collect();
        for number in 0..self.hosts.len() {
            if !listed.contains(&number) && !self.hosts[number].has_parted() {
                self.hosts[number].peer = None;
                self.leave_route(number);
                self.hang_up(number, "it is not among the peers any more", time);
                self.hosts[number].call_at = None;
                self.hosts[number].try_at = None;
                self.hosts[number].parted = Some(time);
            }
            let host = &self.hosts[number];
            let key = host.channel.as_ref().and_then(|channel| channel.key());
            let listed = |peer: &Peer| key.is_none_or(|key| peer.keys.contains(&key));
            if host.peer.is_some() && !host.peer.as_ref().is_some_and(listed) {
                // Whoever has that key may be at the other end of the link, too.
                self.leave_route(number);
                self.hang_up(number, "its key is not among its keys any more", time);
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
