//! The control state of this process: its mailbox, its offers, its pairs.
//!
//! Touched only under the control lock, at a few calls of a connection's life; never on the path of
//! a send or receive that finds its ring ready.

mod introduced;
pub mod lock;
mod meet;
mod strangers;

use std::collections::HashMap;
use std::sync::Arc;

use crate::runtime::handle::Handle;
use crate::state::container_client::ContainerClient;
use crate::state::daemon_client::DaemonClient;
use crate::state::record::flag;
use crate::state::ring_pair::RingPair;
pub use lock::Locked;
use meet::Meeting;
use rendezvous::channel::Channel;
use rendezvous::mailbox::{Mailbox, MailboxName};
use rendezvous::offers::{ForeignTable, Key, Offer, OffersTable, SlotId};
use rendezvous::pair::{Pair, Shares};
use rendezvous::rundir::RunDir;
use shm::waiter;

pub struct Control {
    dir: RunDir,
    /// Mailbox and table belong to this uid; a program that changes its own gets new ones.
    euid: u32,
    mailbox: Option<Mailbox>,
    table: Option<OffersTable>,
    foreign: HashMap<u32, ForeignTable>,
    /// Channels that came in through the mailbox, and those that we opened, by mailbox.
    incoming: Vec<Arc<Pair>>,
    outgoing: HashMap<MailboxName, Arc<Pair>>,
    /// What the users of both may make us hold.
    shares: Shares,
    /// Whose turn it is among those that came in.
    turn: usize,
    /// What we have offered, by record number.
    pub offers: HashMap<u32, Offered>,
    cookies: HashMap<u64, u32>,
    /// What we have claimed and the peer has not confirmed yet, by record number.
    pub claims: HashMap<u32, Box<RingPair>>,
    daemons: DaemonClient,
    pub broker: ContainerClient,
    /// Between network namespaces.
    meeting: Meeting,
    retired: Vec<Retired>,
}

/// An offer that is out.
pub struct Offered {
    slot: SlotId,
    cookie: u64,
}

/// Tables of other users that we keep open. A user namespace has as many users as it likes.
const MOST_FOREIGN: usize = 64;

/// A link in its box: other threads may still be looking at it there.
struct Retired {
    link: Box<RingPair>,
    /// Its connection lives on, and will have another.
    parted: Option<Handle>,
}

impl Retired {
    /// No thread can be looking at it. Who sleeps at its wires gets up, and finds the connection without it.
    fn end(self) {
        let Some(handle) = self.parted else { return };
        waiter::ring_all(&self.link.rx_shared().wait.data);
        waiter::ring_all(&self.link.tx_shared().room.space);
        if let Some(record) = handle.record_now() {
            record.clear(flag::PARTED);
        }
    }
}

/// Links that wait to be unmapped before we look whether they can be.
const RETIRED: usize = 64;

impl Control {
    pub fn new(dir: RunDir) -> Control {
        Control {
            dir,
            euid: rustix::process::geteuid().as_raw(),
            mailbox: None,
            table: None,
            foreign: HashMap::new(),
            incoming: Vec::new(),
            outgoing: HashMap::new(),
            shares: Shares::default(),
            turn: 0,
            offers: HashMap::new(),
            cookies: HashMap::new(),
            claims: HashMap::new(),
            daemons: DaemonClient::default(),
            broker: ContainerClient::default(),
            meeting: Meeting::default(),
            retired: Vec::new(),
        }
    }

    /// For a forked child: the same directory, nothing else of the parent's.
    pub fn for_child(&self) -> Option<Control> {
        self.dir.duplicate().ok().map(Control::new)
    }

    /// The daemon of a network namespace, and all that we know of daemons.
    pub fn daemon(&mut self, netns: u64) -> Option<(Arc<Pair>, &mut DaemonClient)> {
        let pair = self.daemons.of(&self.dir, netns)?;
        Some((pair, &mut self.daemons))
    }

    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    fn follow_uid(&mut self) {
        let euid = rustix::process::geteuid().as_raw();
        if euid != self.euid {
            self.euid = euid;
            self.mailbox = None;
            self.table = None;
        }
    }

    fn table(&mut self) -> Option<&OffersTable> {
        self.follow_uid();
        if self.table.as_ref().is_none_or(OffersTable::is_removed) {
            self.table = OffersTable::own(&self.dir).ok();
            if let Some(table) = &self.table {
                table.sweep(&self.dir);
            }
        }
        self.table.as_ref()
    }

    fn mailbox(&mut self) -> Option<MailboxName> {
        self.follow_uid();
        if self.mailbox.is_none() {
            self.mailbox = Mailbox::create(&self.dir).ok();
        }
        self.mailbox.as_ref().map(Mailbox::name)
    }

    /// Makes an offer; `Err(true)`: the table is full, `Err(false)`: the run directory fails us.
    pub fn offer(&mut self, number: u32, key: Key, cookie: u64) -> Result<(), bool> {
        let mailbox = self.mailbox().ok_or(false)?;
        let pid = os::pid::get();
        self.table().ok_or(false)?;
        let table = self.table.as_ref().ok_or(false)?;
        let offer = Offer {
            key,
            cookie,
            mailbox,
            pid,
        };
        let slot = table.publish(&self.dir, &offer).map_err(|_| true)?;
        self.offers.insert(number, Offered { slot, cookie });
        self.cookies.insert(cookie, number);
        Ok(())
    }

    /// The offer for a connection, by the uid that owns the other end.
    pub fn find_offer(&mut self, key: &Key, uid: u32) -> Option<Offer> {
        if uid == rustix::process::geteuid().as_raw() {
            return self.table()?.find(key);
        }
        if let Some(table) = self.foreign.get(&uid) {
            let found = table.find(key);
            if found.is_some() || !table.is_removed() {
                return found;
            }
        }
        let table = ForeignTable::open(&self.dir, uid).ok()?;
        let found = table.find(key);
        if self.foreign.len() >= MOST_FOREIGN {
            self.foreign.clear();
        }
        self.foreign.insert(uid, table);
        found
    }

    /// The record whose socket was offered under this cookie.
    pub fn offered(&self, cookie: u64) -> Option<u32> {
        self.cookies.get(&cookie).copied()
    }

    /// The pair with the process behind `mailbox`, which must run as `uid`.
    pub fn pair_with(&mut self, mailbox: MailboxName, uid: u32) -> Option<Arc<Pair>> {
        if let Some(pair) = self.outgoing.get(&mailbox).filter(|pair| !pair.is_dead()) {
            return (pair.peer().uid == uid).then(|| pair.clone());
        }
        // A new peer is a good moment to find out about those that are gone.
        self.outgoing.values().for_each(|pair| pair.receive());
        self.outgoing.retain(|_, pair| !pair.is_dead());
        self.drop_retired();
        let channel = Channel::connect(&self.dir, mailbox).ok()?;
        // Before anything is said, or a descriptor sent.
        if channel.peer().ok()?.uid != uid {
            return None;
        }
        let pair = Pair::new(channel, self.shares.of(uid))?;
        self.outgoing.insert(mailbox, pair.clone());
        Some(pair)
    }

    /// Some user owes us memory: finds out what has been let go of since.
    pub fn settle_debts(&self) {
        self.outgoing.values().for_each(|pair| pair.settle_debts());
    }

    /// The connection is closed or established: no offer and no claim of it is left.
    pub fn forget(&mut self, number: u32) {
        if let Some(offered) = self.offers.remove(&number) {
            self.cookies.remove(&offered.cookie);
            if let Some(table) = &self.table {
                table.withdraw(offered.slot);
            }
        }
        self.claims.remove(&number);
        self.daemons.forget(number);
        self.broker.forget(number);
        self.meeting.forget(number);
    }

    /// The process ends: its mailbox goes.
    pub fn leave(&mut self) {
        self.offers
            .keys()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|number| self.forget(number));
        self.mailbox = None;
    }

    /// Keeps a link until no thread can be looking at it.
    pub fn retire(&mut self, link: Box<RingPair>) {
        self.retire_as(link, None);
    }

    /// The same, of a connection that has the flag and lives on.
    pub fn retire_parted(&mut self, link: Box<RingPair>, handle: Handle) {
        self.retire_as(link, Some(handle));
    }

    fn retire_as(&mut self, link: Box<RingPair>, parted: Option<Handle>) {
        let large = link.has_grown();
        self.retired.push(Retired { link, parted });
        let many = self.retired.len() >= RETIRED && self.retired.len().is_multiple_of(8);
        if large || many {
            self.drop_retired();
        }
        if !self.retired.is_empty() {
            crate::runtime::reclaim_timer::has_retired();
        }
    }

    /// Lets go of retired links, and of segments that nothing else is in, unless a thread may be
    /// looking at them just now; `false` if one may be.
    pub fn drop_retired(&mut self) -> bool {
        if !self.retired.is_empty() && crate::runtime::thread::quiet() {
            std::mem::take(&mut self.retired)
                .into_iter()
                .for_each(Retired::end);
            self.leave_namespaces();
        }
        self.retired.is_empty()
    }
}
