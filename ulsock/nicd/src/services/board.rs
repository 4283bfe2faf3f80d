//! The daemon's side of a [`Store`]: what it has put there of this host's names, what it has heard of others, and
//! how that goes.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use netstack::time::Instant;
use rendezvous::names::{Elsewhere, Label};

use super::shared::Shared;
use crate::entry;
use crate::peer_messages::{Named, PeerMessage};
use crate::store::{self, Place, Reports, Store};

/// Between two complaints.
const COMPLAIN: Duration = Duration::from_secs(60);

pub struct Board {
    store: Box<dyn Store>,
    pub reports: Reports,
    pub theirs: Shared,
    /// Of this host, by the number of the name.
    keys: HashMap<u64, String>,
    pub touch: Touch,
    /// Entries that made no sense, were not believed or found no room.
    pub ignored: u64,
    complain_at: Option<Instant>,
}

/// With the store.
#[derive(Debug, PartialEq)]
pub enum Touch {
    /// It has not said anything so far.
    Awaited,
    There,
    Lost(String),
}

impl Board {
    pub fn open(mut store: Box<dyn Store>, me: IpAddr) -> io::Result<Board> {
        let (news, reports) = store::channel()?;
        let place = Place {
            all: entry::ALL.to_owned(),
            own: entry::of_host(me.to_canonical()),
        };
        store.begin(place, news)?;
        Ok(Board {
            store,
            reports,
            theirs: Shared::default(),
            keys: HashMap::new(),
            touch: Touch::Awaited,
            ignored: 0,
            complain_at: None,
        })
    }

    pub fn title(&self) -> &str {
        self.store.title()
    }

    pub fn ours(&self) -> usize {
        self.keys.len()
    }

    /// What would be said to the daemons of other hosts.
    pub fn tell(&mut self, message: &PeerMessage, me: IpAddr) {
        match message {
            PeerMessage::Named(named) => self.put(named, me),
            PeerMessage::Unnamed { id } => {
                if let Some(key) = self.keys.remove(id) {
                    self.store.remove(key);
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, named: &Named, me: IpAddr) {
        let label = Label::here(named.service, named.instance);
        let at = Elsewhere {
            host: me.to_canonical(),
            uid: named.uid,
        };
        let key = entry::key(&label, at);
        self.keys.insert(named.id, key.clone());
        self.store.put(key, entry::value(named.address, named.pid));
    }

    /// `true`: it was not so before, and is worth to be said.
    pub fn set_touch(&mut self, touch: Touch) -> bool {
        let is_new = std::mem::discriminant(&self.touch) != std::mem::discriminant(&touch);
        self.touch = touch;
        is_new
    }

    /// Something was not used. `true`: that is to be said.
    pub fn ignore(&mut self, now: Instant) -> bool {
        self.ignored += 1;
        let is_due = self.complain_at.is_none_or(|at| at <= now);
        if is_due {
            self.complain_at = Some(now + COMPLAIN);
        }
        is_due
    }
}
