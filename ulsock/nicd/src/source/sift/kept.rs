//! What hosts have and keep: it stood in their line, and stands in it now. Nobody else gets it.

use std::collections::HashMap;
use std::net::IpAddr;

use rendezvous::config::Cidr;

use crate::key::PublicKey;
use crate::peers::Peer;

/// Each with whose it is. The lines that were in use exclude nothing of each other, and so each is one host's.
#[derive(Default)]
pub struct Kept<'a> {
    addresses: HashMap<IpAddr, &'a str>,
    keys: HashMap<PublicKey, &'a str>,
    names: HashMap<&'a str, &'a str>,
    /// By address.
    nets: Vec<(Cidr, &'a str)>,
}

impl<'a> Kept<'a> {
    /// Of hosts by their origin: what each was, and what it is now.
    pub fn of(hosts: impl Iterator<Item = (&'a str, &'a Peer, &'a Peer)>) -> Kept<'a> {
        let mut kept = Kept::default();
        for (origin, before, now) in hosts {
            kept.add(origin, before, now);
        }
        kept.nets.sort_by_key(|(net, _)| (net.base(), net.bits()));
        kept
    }

    fn add(&mut self, origin: &'a str, before: &'a Peer, now: &'a Peer) {
        if before.control.ip() == now.control.ip() {
            self.addresses.insert(now.control.ip(), origin);
        }
        let keys = before.keys.iter().filter(|key| now.keys.contains(key));
        self.keys.extend(keys.map(|key| (*key, origin)));
        let name = before.name.as_deref();
        let name = name.filter(|name| now.name.as_deref() == Some(*name));
        self.names.extend(name.map(|name| (name, origin)));
        for was in &before.nets {
            let both = now.nets.iter().filter(|it| it.overlaps(was));
            // Of two blocks that overlap the smaller one lies in the other.
            let both = both.map(|it| if it.bits() > was.bits() { it } else { was });
            self.nets.extend(both.map(|net| (*net, origin)));
        }
    }

    /// Why a host cannot have this line: something of it is another one's.
    pub fn refuses(&self, origin: &str, peer: &Peer) -> Option<String> {
        let other = |it: &&str| *it != origin;
        let ip = peer.control.ip();
        if let Some(owner) = self.addresses.get(&ip).copied().filter(|it| other(it)) {
            return Some(format!("the address {ip} stands in {owner} already"));
        }
        for key in &peer.keys {
            if let Some(owner) = self.keys.get(key).copied().filter(|it| other(it)) {
                return Some(format!("the key {key} stands in {owner} already"));
            }
        }
        let name = peer.name.as_deref();
        let named = name.and_then(|name| Some((name, self.names.get(name)?)));
        if let Some((name, owner)) = named.filter(|(_, owner)| other(owner)) {
            return Some(format!("the name {name} stands in {owner} already"));
        }
        peer.nets.iter().find_map(|net| self.overlap(origin, net))
    }

    fn overlap(&self, origin: &str, net: &Cidr) -> Option<String> {
        let next = self.nets.partition_point(|(it, _)| it.base() < net.base());
        // The one before may contain it; what comes behind may lie in it.
        let before = self.nets[..next].last();
        let inside = self.nets[next..].iter();
        let inside = inside.take_while(|(it, _)| it.overlaps(net));
        let mut all = before.into_iter().chain(inside);
        let (taken, owner) = all.find(|(it, owner)| it.overlaps(net) && *owner != origin)?;
        Some(format!("{net} overlaps with {taken} of {owner}"))
    }
}
