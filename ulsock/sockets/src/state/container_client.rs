//! The daemon of the host, as a program in a container sees it: shown connections whose other end may be in
//! another container, and heard when it has found it.
//!
//! It is reached by a folder of the host's run directory that is mounted into the container's own
//! ([`HOST`](rendezvous::rundir::HOST)). Nobody waits for it, and what two programs share after it has introduced
//! them does not need it any more. In the network namespace of the daemon itself it works the same.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::runtime::process;
use crate::state::daemon_client;
use os::fds::InternalFd;
use rendezvous::channel::Channel;
use rendezvous::message::{Introduction, Message};
use rendezvous::pair::{Mail, Other, Pair};
use rendezvous::reason::Reason;
use rendezvous::rundir::RunDir;

/// Milliseconds between two attempts to find it.
const PAUSE: u64 = 1000;
/// Looks for its answer, one at each call; then they are spaced.
const LOOKS_AT_EACH_CALL: u32 = 64;
/// Milliseconds for which we believe what it says about an address: its peers file may change.
const BELIEVED: u64 = 10_000;
/// Addresses that we remember.
const MOST_ADDRESSES: usize = 1024;

#[derive(Default)]
pub struct ContainerClient {
    pair: Option<Arc<Pair>>,
    /// When we looked for it last.
    tried: u64,
    /// It knows us as this user.
    euid: u32,
    /// Connections that have been shown to it, by their record numbers, and how many looks for its answer are
    /// worth while; the numbers by cookies.
    sought: HashMap<u32, u32>,
    cookies: HashMap<u64, u32>,
    /// Those that it can do nothing for, by their record numbers.
    refused: HashSet<u32>,
    /// Addresses that are another host's by its peers file, and since when we know.
    elsewhere: HashMap<IpAddr, u64>,
    /// Programs that it has introduced to us, by its numbers.
    programs: HashMap<u32, Arc<Pair>>,
    /// By record number.
    found: HashMap<u32, OtherEnd>,
}

/// The other end of a connection, as the daemon vouches for it.
#[derive(Clone)]
pub struct OtherEnd {
    pub pair: Arc<Pair>,
    pub cookie: u64,
}

/// What it has said.
#[derive(Default)]
pub struct ContainerNews {
    /// Records whose other end is known now.
    pub found: Vec<u32>,
    pub refused: Vec<(u32, Reason)>,
    /// Programs that will claim what we have offered.
    pub claimers: Vec<Arc<Pair>>,
}

impl ContainerClient {
    /// Is there one? Looks for it, now and then.
    pub fn is_there(&mut self, dir: &RunDir) -> bool {
        let euid = rustix::process::geteuid().as_raw();
        let lost = self.pair.as_ref().is_some_and(|pair| pair.is_dead()) || self.euid != euid;
        if lost {
            // The next one knows nothing of what this one was shown.
            *self = ContainerClient {
                tried: self.tried,
                euid,
                found: std::mem::take(&mut self.found),
                ..ContainerClient::default()
            };
        }
        let now = os::clock::coarse_ms();
        if self.pair.is_none() && (self.tried == 0 || now >= self.tried + PAUSE) {
            self.tried = now;
            self.pair = daemon_client::trusted(dir, Channel::connect_to_host(dir).ok())
                .and_then(|channel| Pair::with(Other::HostDaemon, channel));
        }
        self.pair.is_some()
    }

    /// Lets it look for the other end of a connection; `false` if it cannot, or has said that it finds none.
    pub fn seek(
        &mut self,
        number: u32,
        cookie: u64,
        connected: bool,
        socket: BorrowedFd<'_>,
    ) -> bool {
        if self.refused.contains(&number) {
            return false;
        }
        let message = Message::Seek {
            cookie,
            connected,
            translated: process::config().redirected,
        };
        let pair = self.pair.as_ref();
        let shown = pair.is_some_and(|pair| pair.tell(&message, Some(socket)));
        if shown {
            self.sought.insert(number, LOOKS_AT_EACH_CALL);
            self.cookies.insert(cookie, number);
        }
        shown
    }

    /// For a connection that it has been shown: is its answer to be expected at the next call?
    pub fn may_answer_soon(&mut self, number: u32) -> Option<bool> {
        let left = self.sought.get_mut(&number)?;
        *left = left.saturating_sub(1);
        Some(*left > 0)
    }

    /// The record of a connection that it has answered.
    fn answered(&mut self, cookie: u64) -> Option<u32> {
        let number = self.cookies.remove(&cookie)?;
        self.sought.remove(&number).map(|_| number)
    }

    /// The records that a refusal is about.
    fn refused_by(&mut self, cookie: u64) -> Vec<u32> {
        match cookie {
            rendezvous::message::EVERY_COOKIE => {
                self.cookies.clear();
                self.sought.drain().map(|(number, _)| number).collect()
            }
            one => self.answered(one).into_iter().collect(),
        }
    }

    /// What it has said since.
    pub fn hear(&mut self) -> ContainerNews {
        let mut news = ContainerNews::default();
        let Some(pair) = self.pair.clone() else {
            return news;
        };
        pair.receive();
        while let Some(mail) = pair.next_mail() {
            self.take(mail, &mut news);
        }
        news
    }

    fn take(&mut self, mail: Mail, news: &mut ContainerNews) {
        match mail {
            Mail::Introduced { it, channel } => {
                news.claimers
                    .extend(self.meet(&it, channel).filter(|_| !it.claims));
            }
            Mail::Found {
                cookie,
                other,
                number,
            } => {
                let pair = self.programs.get(&number).cloned();
                if let (Some(number), Some(pair)) = (self.answered(cookie), pair) {
                    let other = OtherEnd {
                        pair,
                        cookie: other,
                    };
                    self.found.insert(number, other);
                    news.found.push(number);
                }
            }
            Mail::Refused { cookie, reason } => {
                for number in self.refused_by(cookie) {
                    self.refused.insert(number);
                    news.refused
                        .push((number, Reason::from_number(reason.into())));
                }
            }
            _ => {}
        }
    }

    fn meet(&mut self, it: &Introduction, channel: InternalFd) -> Option<Arc<Pair>> {
        // A new one is a good moment to find out about those that are gone.
        self.programs.values().for_each(|pair| pair.receive());
        self.programs.retain(|_, pair| !pair.is_dead());
        let pair = Pair::introduced(Channel::given(channel).ok()?, it)?;
        self.programs.insert(it.number, pair.clone());
        Some(pair)
    }

    /// The other end of a connection, if it has been found.
    pub fn other_end(&self, number: u32) -> Option<&OtherEnd> {
        self.found.get(&number)
    }

    /// Does it say that the socket with this cookie, of the process behind `pair`, is the other end of ours?
    pub fn vouches_for(&self, number: u32, pair: &Arc<Pair>, cookie: u64) -> bool {
        let other = self.other_end(number);
        other.is_some_and(|other| Arc::ptr_eq(&other.pair, pair) && other.cookie == cookie)
    }

    /// It has said that another host has this address.
    pub fn note_other_host(&mut self, ip: IpAddr) {
        if self.elsewhere.len() >= MOST_ADDRESSES {
            self.elsewhere.clear();
        }
        self.elsewhere
            .insert(ip.to_canonical(), os::clock::coarse_ms());
    }

    /// Has it said so lately?
    pub fn is_other_host(&self, ip: IpAddr) -> bool {
        let since = self.elsewhere.get(&ip.to_canonical());
        since.is_some_and(|since| os::clock::coarse_ms() < since + BELIEVED)
    }

    /// The connection is closed, or has its rings.
    pub fn forget(&mut self, number: u32) {
        self.refused.remove(&number);
        self.found.remove(&number);
        if self.sought.remove(&number).is_some() {
            self.cookies.retain(|_, sought| *sought != number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{ContainerClient, MOST_ADDRESSES};

    #[test]
    fn addresses_of_other_hosts_are_remembered_within_bounds() {
        let mut broker = ContainerClient::default();
        let ip = |number: usize| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number as u32));
        for number in 0..=MOST_ADDRESSES {
            assert!(!broker.is_other_host(ip(number)));
            broker.note_other_host(ip(number));
            assert!(broker.is_other_host(ip(number)));
            assert!(broker.elsewhere.len() <= MOST_ADDRESSES);
        }
        let IpAddr::V4(mapped) = ip(MOST_ADDRESSES) else {
            unreachable!("made so")
        };
        assert!(broker.is_other_host(mapped.to_ipv6_mapped().into()));
    }
}
