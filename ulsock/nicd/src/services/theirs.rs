//! The names of other hosts, each a file of ours in the run directory. They are gone with us; and with the word of their
//! host, but for the moment in which its daemon may be started anew.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use netstack::time::Instant;
use rendezvous::names::{Directory, Elsewhere, Held, Label};

use crate::peer_messages::Named;

/// What one host can make us write, and all of them: each takes a descriptor.
pub const MOST_OF_A_HOST: usize = 1024;
pub const MOST: usize = 8192;

/// From the end of a channel to the end of the names that were not told anew.
pub const GRACE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Theirs {
    hosts: HashMap<usize, HashMap<Label, Entry>>,
    /// When those go that a host has not told on its new channel.
    lose_at: HashMap<usize, Instant>,
}

struct Entry {
    named: Named,
    /// Told on the channel that there is now.
    confirmed: bool,
    /// Held, not used: the file is there as long as this is.
    _held: Held,
}

impl Theirs {
    /// A host has this name. Where there is no room for it, it is not written.
    pub fn named(&mut self, host: usize, control: IpAddr, named: Named, directory: &Directory) {
        let uid = named.uid;
        let label = Label {
            service: named.service,
            instance: named.instance,
            elsewhere: Some(Elsewhere { host: control, uid }),
        };
        let all: usize = self.hosts.values().map(HashMap::len).sum();
        let names = self.hosts.entry(host).or_default();
        if let Some(known) = names.get_mut(&label) {
            let same = (known.named.address, known.named.pid) == (named.address, named.pid);
            if same {
                (known.named.id, known.confirmed) = (named.id, true);
                return;
            }
            names.remove(&label);
        }
        let ip = named.address.ip().to_canonical();
        let address = SocketAddr::new(ip, named.address.port());
        if names.len() >= MOST_OF_A_HOST || all >= MOST || address.port() == 0 {
            return;
        }
        if let Ok(held) = directory.publish(label, address, uid, named.pid) {
            let entry = Entry {
                named,
                confirmed: true,
                _held: held,
            };
            names.insert(label, entry);
        }
    }

    pub fn unnamed(&mut self, host: usize, id: u64) {
        if let Some(names) = self.hosts.get_mut(&host) {
            names.retain(|_, entry| entry.named.id != id || !entry.confirmed);
        }
    }

    /// What a host has not told again is no more.
    pub fn all_told(&mut self, host: usize) {
        self.lose_at.remove(&host);
        if let Some(names) = self.hosts.get_mut(&host) {
            names.retain(|_, entry| entry.confirmed);
        }
    }

    /// The channel has ended.
    pub fn lose(&mut self, host: usize, now: Instant) {
        let names = self.hosts.get_mut(&host).filter(|names| !names.is_empty());
        if let Some(names) = names {
            names.values_mut().for_each(|entry| entry.confirmed = false);
            self.lose_at.entry(host).or_insert(now + GRACE);
        }
    }

    pub fn tend(&mut self, now: Instant) {
        let due = self.lose_at.iter().filter(|(_, at)| **at <= now);
        for host in due.map(|(host, _)| *host).collect::<Vec<usize>>() {
            self.all_told(host);
        }
    }

    pub fn next(&self) -> Option<Instant> {
        self.lose_at.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use rendezvous::names::{Service, Users};
    use rendezvous::rundir::RunDir;
    use rendezvous::rundir::scratch::Scratch;

    use super::*;

    fn named(id: u64, instance: u32) -> Named {
        Named {
            id,
            service: Service::new("db").unwrap(),
            instance,
            address: SocketAddr::from(([10, 0, 0, 2], 7)),
            uid: 0,
            pid: 9,
        }
    }

    fn there(directory: &Directory) -> Vec<(u32, u64)> {
        let service = Service::new("db").unwrap();
        let all = directory.range(service, 0..=u32::MAX).unwrap().into_iter();
        let mut all: Vec<_> = all.map(|it| (it.label.instance, it.nonce)).collect();
        all.sort();
        all
    }

    #[test]
    fn names_outlive_a_short_silence_and_no_long_one() {
        let dir = Scratch::new();
        let run_dir = RunDir::open(&dir.path).unwrap();
        let directory = Directory::open(run_dir, Users::All).unwrap();
        let mut theirs = Theirs::default();
        let control = IpAddr::from([10, 0, 0, 2]);
        let time = Instant::ZERO;
        for instance in 1..=3 {
            theirs.named(0, control, named(instance.into(), instance), &directory);
        }
        let before = there(&directory);
        assert_eq!(before.len(), 3);
        theirs.lose(0, time);
        theirs.tend(time + GRACE / 2);
        theirs.named(0, control, named(70, 1), &directory);
        theirs.unnamed(0, 2);
        assert_eq!(
            there(&directory),
            before,
            "the same files; old numbers mean nothing"
        );
        theirs.all_told(0);
        assert_eq!(there(&directory), before[..1]);
        assert_eq!(theirs.next(), None);
        theirs.lose(0, time);
        theirs.lose(0, time + GRACE / 2);
        assert_eq!(theirs.next(), Some(time + GRACE));
        theirs.tend(time + GRACE);
        assert_eq!(there(&directory), []);
    }

    #[test]
    fn a_host_has_so_many_and_no_more() {
        let dir = Scratch::new();
        let run_dir = RunDir::open(&dir.path).unwrap();
        let directory = Directory::open(run_dir, Users::All).unwrap();
        let mut theirs = Theirs::default();
        let control = IpAddr::from([10, 0, 0, 2]);
        for instance in 0..2000 {
            theirs.named(0, control, named(instance.into(), instance), &directory);
        }
        assert_eq!(there(&directory).len(), theirs.hosts[&0].len());
        assert!(theirs.hosts[&0].len() <= MOST_OF_A_HOST);
        theirs.named(1, control, named(0, 5000), &directory);
        drop(theirs);
        assert_eq!(there(&directory), [], "gone with the daemon");
    }
}
