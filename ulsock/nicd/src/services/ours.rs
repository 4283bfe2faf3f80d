//! The names of this host that other daemons are told of.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use rendezvous::names::{Change, Label, Record};

use crate::peer_messages::{Named, PeerMessage};

/// Names that are told, and how many of them are one user's.
const MOST: usize = 1024;
const MOST_OF_A_USER: usize = 256;

#[derive(Default)]
pub struct Ours {
    told: HashMap<(u32, Label), Named>,
    next: u64,
}

impl Ours {
    /// What is to be said about a change, if others can make use of it.
    pub fn take(&mut self, change: &Change, me: IpAddr, namespace: u64) -> Option<PeerMessage> {
        match change {
            Change::Appeared(record) => {
                self.appeared(record, me, namespace).map(PeerMessage::Named)
            }
            Change::Disappeared(record) => {
                let Named { id, .. } = self.told.remove(&(record.uid, record.label))?;
                Some(PeerMessage::Unnamed { id })
            }
        }
    }

    fn appeared(&mut self, record: &Record, me: IpAddr, namespace: u64) -> Option<Named> {
        let of_user = self.told.keys().filter(|key| key.0 == record.uid).count();
        let is_ours = record.label.elsewhere.is_none() && record.namespace == namespace;
        if !is_ours || self.told.len() >= MOST || of_user >= MOST_OF_A_USER {
            return None;
        }
        let address = for_others(record.address, me)?;
        self.next += 1;
        let named = Named {
            id: self.next,
            service: record.label.service,
            instance: record.label.instance,
            address,
            uid: record.uid,
            pid: record.pid,
        };
        self.told.insert((record.uid, record.label), named);
        Some(named)
    }

    pub fn all(&self) -> impl Iterator<Item = Named> {
        self.told.values().copied()
    }
}

/// How another host reaches it, if it can.
fn for_others(address: SocketAddr, me: IpAddr) -> Option<SocketAddr> {
    let ip = address.ip().to_canonical();
    let is_near = match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    };
    let ip = match ip {
        // Who listens at every IPv6 address does so at every IPv4 address, too.
        ip if ip.is_unspecified() && (ip.is_ipv6() || me.is_ipv4()) => me,
        ip if ip.is_unspecified() || is_near => return None,
        ip => ip,
    };
    Some(SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use rendezvous::names::Service;

    use super::*;

    #[test]
    fn addresses_that_others_can_use() {
        let told = |address: &str, me: &str| {
            let told = for_others(address.parse().unwrap(), me.parse().unwrap());
            told.map_or("-".to_owned(), |told| told.to_string())
        };
        assert_eq!(told("0.0.0.0:7", "10.0.0.1"), "10.0.0.1:7");
        assert_eq!(told("[::]:7", "10.0.0.1"), "10.0.0.1:7");
        assert_eq!(told("[::]:7", "fd00::1"), "[fd00::1]:7");
        assert_eq!(told("0.0.0.0:7", "fd00::1"), "-");
        assert_eq!(told("10.0.0.9:7", "10.0.0.1"), "10.0.0.9:7");
        for near in [
            "127.0.0.1:7",
            "127.9.0.1:7",
            "[::1]:7",
            "[fe80::1]:7",
            "169.254.0.1:7",
            "[::ffff:127.0.0.1]:7",
        ] {
            assert_eq!(told(near, "10.0.0.1"), "-", "{near}");
        }
    }

    #[test]
    fn no_user_has_all_places() {
        let mut ours = Ours::default();
        let me: IpAddr = [10, 0, 0, 1].into();
        let record = |uid: u32, instance: u32| Record {
            label: Label::here(Service::new("db").unwrap(), instance),
            address: SocketAddr::new(me, 7),
            uid,
            pid: 1,
            namespace: 5,
            nonce: 0,
        };
        let appears = |ours: &mut Ours, uid, instance| {
            let change = Change::Appeared(record(uid, instance));
            ours.take(&change, me, 5).is_some()
        };
        let greedy = (0..2000).filter(|it| appears(&mut ours, 1, *it)).count();
        assert_eq!(greedy, MOST_OF_A_USER);
        assert!(appears(&mut ours, 2, 1));
        let gone = ours.take(&Change::Disappeared(record(1, 3)), me, 5);
        assert_eq!(gone, Some(PeerMessage::Unnamed { id: 4 }));
        assert!(appears(&mut ours, 1, 3000));
        let elsewhere = Change::Appeared(record(3, 1));
        assert_eq!(ours.take(&elsewhere, me, 6), None, "of another network");
    }
}
