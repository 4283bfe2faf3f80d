//! The daemon of this host, as a program sees it: found in the run directory, shown connections, and heard
//! when it has rings for them (docs/failover.md, the beginning of a promotion).
//!
//! Each network namespace has its own, for it is the NIC's owner there. Nobody waits for it: what it has
//! to say is taken at a connection's next look.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use rustix::fs::fstat;

use crate::runtime::process;
use crate::state::engine;
use crate::state::ring_pair::RingPair;
use rendezvous::channel::Channel;
use rendezvous::config::Nic;
use rendezvous::message::{EVERY_COOKIE, Message};
use rendezvous::pair::{Mail, Other, Pair};
use rendezvous::reason::Reason;
use rendezvous::rundir::RunDir;
use shm::layout::OFFERER;

/// Milliseconds between two attempts to find one.
const PAUSE: u64 = 1000;

/// With fewer CPUs the daemon has none to itself, and its wake-ups come on top of the kernel's.
const ENOUGH: i64 = 4;

/// The daemons that this process knows, by the cookies of their network namespaces.
#[derive(Default)]
pub struct DaemonClient {
    known: HashMap<u64, KnownDaemon>,
    /// Connections that have been shown, by their cookies.
    shown: HashMap<u64, u32>,
    /// Those that it does not want, by their record numbers.
    refused: HashMap<u32, Reason>,
}

struct KnownDaemon {
    pair: Option<Arc<Pair>>,
    tried: u64,
    /// It knows that we want an engine of our own.
    asked: bool,
}

/// What a daemon says about a connection that was shown to it.
pub enum DaemonAnswer {
    Claimed(Box<RingPair>),
    Refused(Reason),
}

impl DaemonClient {
    /// The daemon of a network namespace, if there is one.
    pub fn of(&mut self, dir: &RunDir, netns: u64) -> Option<Arc<Pair>> {
        match process::config().nic {
            Nic::Off => return None,
            Nic::Auto if has_few_cpus() => return None,
            Nic::Auto | Nic::Measured | Nic::Daemon | Nic::Inline => {}
        }
        let now = os::clock::coarse_ms();
        let known = self.known.entry(netns).or_insert(KnownDaemon {
            pair: None,
            tried: 0,
            asked: false,
        });
        if known.pair.as_ref().is_some_and(|pair| pair.is_dead()) {
            known.pair = None;
            // The next one knows nothing of what this one was shown.
            self.shown.clear();
        }
        if known.pair.is_none() && (known.tried == 0 || now >= known.tried + PAUSE) {
            known.tried = now;
            known.asked = false;
            known.pair = meet(dir, netns);
        }
        known.pair.clone()
    }

    /// It has been shown a connection, and has not answered yet.
    pub fn has_shown(&self, cookie: u64) -> bool {
        self.shown.contains_key(&cookie)
    }

    /// Shows it a connection.
    pub fn show(
        &mut self,
        pair: &Pair,
        number: u32,
        cookie: u64,
        connected: bool,
        socket: BorrowedFd<'_>,
    ) -> bool {
        self.ask_for_engine(pair);
        let shown = pair.tell(&Message::Show { cookie, connected }, Some(socket));
        if shown {
            self.shown.insert(cookie, number);
        }
        shown
    }

    /// Before the first connection to another host: until then nobody has a use for an engine.
    fn ask_for_engine(&mut self, pair: &Pair) {
        let of = |known: &&mut KnownDaemon| {
            let known = known.pair.as_deref();
            known.is_some_and(|known| std::ptr::eq(known, pair))
        };
        if let Some(known) = self.known.values_mut().find(of)
            && wants_engine()
            && !known.asked
        {
            known.asked = pair.tell(&Message::Ask, None);
        }
    }

    /// What a daemon has said since, with the records that it is about.
    pub fn answers(&mut self, pair: &Arc<Pair>) -> Vec<(u32, DaemonAnswer)> {
        pair.receive();
        let mut answers = Vec::new();
        // A queue and its routes come before the claims that need them.
        while let Some(mail) = pair.next_mail() {
            match mail {
                Mail::Refused { cookie, reason } => {
                    let reason = Reason::from_number(reason.into());
                    for number in self.refused_by(cookie) {
                        self.refused.insert(number, reason);
                        answers.push((number, DaemonAnswer::Refused(reason)));
                    }
                }
                Mail::Queue { queue, socket } => engine::begin(pair, queue, socket),
                Mail::Route(route) => engine::add_route(pair, &route),
                Mail::Socket { route, socket } => engine::add_socket(pair, &route, socket),
                _ => {}
            }
        }
        while let Some(claim) = pair.next_claim() {
            // A link that is not taken is dropped, and its block is free again.
            let segment = pair.segment(claim.segment);
            let segment = segment.filter(|segment| segment.has_block(claim.conn));
            let link =
                segment.map(|segment| RingPair::new(pair.clone(), segment, claim.conn, OFFERER));
            let number = self.shown.remove(&claim.offer_cookie);
            if let (Some(number), Some(link)) = (number, link) {
                answers.push((number, DaemonAnswer::Claimed(Box::new(link))));
            }
        }
        answers
    }

    /// The records that a refusal is about.
    fn refused_by(&mut self, cookie: u64) -> Vec<u32> {
        match cookie {
            EVERY_COOKIE => self.shown.drain().map(|(_, number)| number).collect(),
            one => self.shown.remove(&one).into_iter().collect(),
        }
    }

    /// Why the daemon does not want it, if it has said so.
    pub fn refusal(&self, number: u32) -> Option<Reason> {
        self.refused.get(&number).copied()
    }

    /// The connection is closed.
    pub fn forget(&mut self, number: u32) {
        self.refused.remove(&number);
        if !self.shown.is_empty() {
            self.shown.retain(|_, shown| *shown != number);
        }
    }
}

/// The daemon has no CPU to itself, and nobody has said that this does not matter.
pub fn has_few_cpus() -> bool {
    process::config().nic == Nic::Auto && shares_cpus()
}

/// It has no CPU to itself.
pub fn shares_cpus() -> bool {
    cpus() < ENOUGH
}

/// Of the host, not those that this process may use.
fn cpus() -> i64 {
    os::process_wide! {
        static CPUS: OnceLock<i64> = OnceLock::new();
    }
    // SAFETY: takes and returns a number.
    *CPUS.get_or_init(|| unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) })
}

fn meet(dir: &RunDir, netns: u64) -> Option<Arc<Pair>> {
    let channel = trusted(dir, Channel::connect_to_daemon(dir, netns).ok())?;
    Pair::with(Other::Daemon, channel)
}

/// Which carrier a connection gets is decided later; without an engine of ours it cannot be that one.
fn wants_engine() -> bool {
    match process::config().nic {
        Nic::Inline | Nic::Auto | Nic::Measured => true,
        Nic::Off | Nic::Daemon => false,
    }
}

/// Only root, the owner of the run directory and we ourselves may be the daemon: it sees all bytes, or says
/// who may.
pub fn trusted(dir: &RunDir, channel: Option<Channel>) -> Option<Channel> {
    let uid = channel.as_ref()?.peer().ok()?.uid;
    let owner = fstat(dir).ok()?.st_uid;
    channel.filter(|_| rendezvous::rundir::may_be_daemon(uid, owner))
}
