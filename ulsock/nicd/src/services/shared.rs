//! The names of other hosts that are in a store, each a file of ours in the run directory. They are gone with us; and a while
//! after the store is out of reach, when their hosts may be gone as well.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use netstack::time::Instant;
use rendezvous::names::{Directory, Held, Label};

use super::theirs::{GRACE, MOST, MOST_OF_A_HOST};
use crate::entry::Entry;
use crate::store::TTL;

#[derive(Default)]
pub struct Shared {
    names: HashMap<Label, Written>,
    /// When those go that were not told anew.
    lose_at: Option<Instant>,
}

struct Written {
    entry: Entry,
    /// Told since the last start.
    confirmed: bool,
    /// Held, not used: the file is there as long as this is.
    _held: Held,
}

impl Shared {
    /// `false`: there is no room for it.
    pub fn named(&mut self, entry: Entry, directory: &Directory) -> bool {
        let label = entry.label;
        if let Some(known) = self.names.get_mut(&label) {
            if known.entry == entry {
                known.confirmed = true;
                return true;
            }
            self.names.remove(&label);
        }
        if self.names.len() >= MOST || self.of_host(label.host()) >= MOST_OF_A_HOST {
            return false;
        }
        let uid = label.elsewhere.map_or(u32::MAX, |at| at.uid);
        let published = directory.publish(label, entry.address, uid, entry.pid);
        let Ok(held) = published else {
            return false;
        };
        let written = Written {
            entry,
            confirmed: true,
            _held: held,
        };
        self.names.insert(label, written);
        true
    }

    fn of_host(&self, host: Option<IpAddr>) -> usize {
        let labels = self.names.keys();
        labels.filter(|label| label.host() == host).count()
    }

    pub fn gone(&mut self, label: &Label) {
        self.names.remove(label);
    }

    /// All that there is will be told.
    pub fn start(&mut self) {
        self.names.values_mut().for_each(|it| it.confirmed = false);
    }

    /// All has been told. Where the store has begun anew, other hosts may be about to put their names there again.
    pub fn complete(&mut self, now: Instant) {
        let all = self.names.values().all(|it| it.confirmed);
        self.lose_at = (!all).then_some(now + GRACE);
    }

    /// Nothing is known since so long.
    pub fn lost(&mut self, now: Instant, silence: Duration) {
        self.start();
        self.lose_at = Some(now + TTL.saturating_sub(silence));
    }

    pub fn tend(&mut self, now: Instant) {
        if self.lose_at.is_some_and(|at| at <= now) {
            self.lose_at = None;
            self.names.retain(|_, it| it.confirmed);
        }
    }

    pub fn next(&self) -> Option<Instant> {
        self.lose_at
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }
}

#[cfg(test)]
mod tests {
    use rendezvous::names::{Elsewhere, Service, Users};
    use rendezvous::rundir::RunDir;
    use rendezvous::rundir::scratch::Scratch;

    use super::*;

    fn entry(host: u8, instance: u32) -> Entry {
        let host = IpAddr::from([10, 0, 0, host]);
        Entry {
            label: Label {
                service: Service::new("db").unwrap(),
                instance,
                elsewhere: Some(Elsewhere { host, uid: 0 }),
            },
            address: (host, 7).into(),
            pid: 9,
        }
    }

    fn world() -> (Scratch, Directory) {
        let dir = Scratch::new();
        let run_dir = RunDir::open(&dir.path).unwrap();
        (dir, Directory::open(run_dir, Users::All).unwrap())
    }

    fn there(directory: &Directory) -> Vec<(u32, u64)> {
        let service = Service::new("db").unwrap();
        let all = directory.range(service, 0..=u32::MAX).unwrap().into_iter();
        let mut all: Vec<_> = all.map(|it| (it.label.instance, it.nonce)).collect();
        all.sort();
        all
    }

    #[test]
    fn names_outlive_a_store_that_is_back_in_time() {
        let (_dir, directory) = world();
        let mut shared = Shared::default();
        let time = Instant::ZERO;
        shared.start();
        assert!((1..=3).all(|instance| shared.named(entry(2, instance), &directory)));
        shared.complete(time);
        assert_eq!(shared.next(), None);
        let before = there(&directory);
        assert_eq!(before.len(), 3);
        shared.lost(time, Duration::from_secs(5));
        shared.tend(time + Duration::from_secs(9));
        assert_eq!(there(&directory), before);
        // Attempts in vain give no more time.
        shared.start();
        shared.lost(time + Duration::from_secs(9), Duration::from_secs(14));
        assert_eq!(shared.next(), Some(time + Duration::from_secs(10)));
        shared.start();
        shared.named(entry(2, 1), &directory);
        shared.complete(time + Duration::from_secs(9));
        shared.named(entry(2, 2), &directory);
        assert_eq!(there(&directory), before, "the same files");
        shared.tend(time + Duration::from_secs(9) + GRACE);
        assert_eq!(there(&directory), before[..2]);
    }

    #[test]
    fn names_go_when_their_time_is_over() {
        let (_dir, directory) = world();
        let mut shared = Shared::default();
        let time = Instant::ZERO;
        shared.named(entry(2, 1), &directory);
        shared.lost(time, Duration::ZERO);
        shared.tend(time + (TTL - Duration::from_millis(1)));
        assert_eq!(shared.count(), 1);
        shared.tend(time + TTL);
        assert_eq!(there(&directory), []);
    }

    #[test]
    fn a_change_is_another_registration() {
        let (_dir, directory) = world();
        let mut shared = Shared::default();
        shared.named(entry(2, 1), &directory);
        let before = there(&directory);
        let other = Entry {
            pid: 10,
            ..entry(2, 1)
        };
        shared.named(other, &directory);
        assert_ne!(there(&directory), before);
        assert_eq!(shared.count(), 1);
        shared.gone(&other.label);
        assert_eq!(there(&directory), []);
    }

    #[test]
    fn a_host_has_so_many_and_no_more() {
        let (_dir, directory) = world();
        let mut shared = Shared::default();
        let named = (0..1500).filter(|it| shared.named(entry(2, *it), &directory));
        let count = named.count();
        assert!(count <= MOST_OF_A_HOST);
        assert_eq!(shared.count(), count);
    }
}
