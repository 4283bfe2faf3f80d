//! One attempt at a plain connection: the connecting side offers it, the accepting side claims it.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::confirm::{answer_claims, establish};
use crate::promote::unhooked;
use crate::runtime::process;
use crate::state::control::Control;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Record, Role, flag};
use crate::state::ring_pair::RingPair;
use os::diag;
use os::tcp;
use os::translated;
use os::users::names_one_user;
use rendezvous::config::{Nic, OutOfScope, Reach};
use rendezvous::offers::{Key, Offer};
use rendezvous::pair::{Claim, Pair};
use rendezvous::reason::Reason;
use shm::layout::{CLAIMER, CONFIRMED, RELEASED};

const TCP_ESTABLISHED: u8 = 1;
/// A claim that is not confirmed by this call is looked at less often.
const PATIENT_CALLS: u32 = 1024;

pub(super) enum Progress {
    Waiting,
    Soon,
    /// The daemon of this host has been shown it, for another host.
    Shown,
}

/// What the offering side has made of a claim.
enum ClaimAnswer {
    NotYet,
    Yes,
    No(Reason),
}

pub(super) struct Attempt<'a> {
    pub family: &'a ProcessGroup,
    pub number: u32,
    pub record: &'a Record,
    pub socket: BorrowedFd<'a>,
}

impl Attempt<'_> {
    pub(super) fn as_connected(&self, control: &mut Control) -> Result<Progress, Reason> {
        if !control.offers.contains_key(&self.number) {
            let key = self.key()?;
            self.check_kind()?;
            let cookie = tcp::cookie(self.socket).map_err(|_| Reason::Call)?;
            let full = |full| {
                if full {
                    Reason::TableFull
                } else {
                    Reason::RunDir
                }
            };
            control.offer(self.number, key, cookie).map_err(full)?;
            self.record.set(flag::PENDING);
            self.record.set_reason(Reason::NoPeer);
            return Ok(Progress::Soon);
        }
        answer_claims(self.family, control);
        Ok(if control.is_wanted(self.number) {
            Progress::Soon
        } else {
            Progress::Waiting
        })
    }

    pub(super) fn as_accepted(&self, control: &mut Control) -> Result<Progress, Reason> {
        if control.claims.contains_key(&self.number) {
            return self.check_confirmation(control);
        }
        if self.record.is_unix() {
            return self.as_accepted_unix(control);
        }
        let key = self.key()?;
        let (local, peer) = self.ends()?;
        let reach = Reach::of(local, peer);
        // A peer on another host never makes an offer here, and asking the kernel about it costs more.
        if reach == Reach::Host && control.is_offered_by_nobody(&key) {
            return Err(Reason::NoPeer);
        }
        self.check_kind()?;
        // Whoever has a connection between the two addresses that we see is not the one who called. Who has called may
        // be found by the daemon of the host: see `translated`.
        if translated::is_redirected(self.socket, &local) {
            return Err(Reason::Identity);
        }
        match diag::other_end(&local, &peer).ok().flatten() {
            Some(other) => {
                let offer = control.find_offer(&key, other.uid).ok_or(Reason::NoPeer)?;
                if offer.cookie != other.cookie {
                    return Err(Reason::Identity);
                }
                let pair = pair_with(control, &offer, other.uid)?;
                // Who is at home in another network namespace has no socket in ours.
                if !pair.is_near() {
                    return Err(Reason::Identity);
                }
                self.claim(control, &pair, offer.cookie)
            }
            None if reach == Reach::Host => self.claim_elsewhere(control, &key, local, peer),
            None => Err(Reason::NoPeer),
        }
    }

    pub(super) fn claim(
        &self,
        control: &mut Control,
        pair: &Arc<Pair>,
        offer_cookie: u64,
    ) -> Result<Progress, Reason> {
        let claim_cookie = tcp::cookie(self.socket).map_err(|_| Reason::Call)?;
        // What we know of the other end is why we claim: it may have what peers have.
        pair.prove();
        let block = pair.allocate().or_else(|| {
            control.settle_debts();
            pair.allocate()
        });
        let (segment, conn) = block.ok_or(Reason::Memory)?;
        let claim = Claim {
            offer_cookie,
            claim_cookie,
            segment: segment.number,
            conn,
        };
        let link = Box::new(RingPair::new(pair.clone(), segment, conn, CLAIMER));
        if !pair.send_claim(claim) {
            link.was_not_claimed();
            return Err(Reason::PeerGone);
        }
        control.claims.insert(self.number, link);
        self.record.set(flag::PENDING);
        self.record.clear(flag::REFUSED);
        self.record.set_reason(Reason::Unanswered);
        Ok(Progress::Soon)
    }

    fn check_confirmation(&self, control: &mut Control) -> Result<Progress, Reason> {
        let answer = |link: &RingPair| match link.theirs().stage.load(Ordering::Acquire) {
            CONFIRMED => ClaimAnswer::Yes,
            RELEASED => ClaimAnswer::No(Reason::from_number(
                link.theirs().refused.load(Ordering::Relaxed),
            )),
            _ if self.is_time_to_ask() && link.pair.has_ended() => ClaimAnswer::No(Reason::None),
            _ => ClaimAnswer::NotYet,
        };
        match control
            .claims
            .get(&self.number)
            .map_or(ClaimAnswer::NotYet, |link| answer(link))
        {
            ClaimAnswer::NotYet => {
                let calls = self.record.calls.load(Ordering::Relaxed);
                self.record.set_reason(Reason::Unanswered);
                Ok(if calls < PATIENT_CALLS {
                    Progress::Soon
                } else {
                    Progress::Waiting
                })
            }
            ClaimAnswer::Yes => {
                if let Some(link) = control.claims.remove(&self.number) {
                    establish(self.family, control, self.number, self.socket, link);
                }
                Ok(Progress::Waiting)
            }
            // The next offer of it is claimed anew.
            ClaimAnswer::No(reason) => {
                control.claims.remove(&self.number);
                self.record.clear(flag::PENDING);
                self.record.put(flag::REFUSED, reason != Reason::None);
                Err(match reason {
                    Reason::None => Reason::NoPeer,
                    reason => reason,
                })
            }
        }
    }

    /// The process that made the offer may have left the connection to a child of its own.
    fn is_time_to_ask(&self) -> bool {
        let calls = self.record.calls.load(Ordering::Relaxed);
        calls >= PATIENT_CALLS || calls.is_multiple_of(64)
    }

    /// Another host has the other end, as far as addresses tell, and the program may talk to it by the
    /// daemon.
    pub(super) fn is_to_other_host(&self) -> bool {
        let ends = self.record.local().zip(self.record.peer());
        let config = process::config();
        config.nic != Nic::Off
            && ends.is_some_and(|(local, peer)| config.scope.allows_other_hosts(local, peer))
    }

    fn ends(&self) -> Result<(SocketAddr, SocketAddr), Reason> {
        let ends = self.record.local().zip(self.record.peer());
        ends.ok_or(Reason::Call)
    }

    /// The connection's name, once it is known to be in scope.
    pub(super) fn key(&self) -> Result<Key, Reason> {
        if !names_one_user(rustix::process::geteuid().as_raw()) {
            return Err(Reason::Identity);
        }
        if self.record.is_unix() {
            return self.unix_key();
        }
        let local = tcp::local_addr(self.socket).map_err(|_| Reason::Call)?;
        let peer = tcp::peer_addr(self.socket).map_err(|_| Reason::Call)?;
        self.record.set_addresses(local, peer);
        if let Err(out) = process::config().scope.check(Some(local), peer) {
            if !self.is_to_other_host() {
                self.record.set(flag::PINNED);
            }
            return Err(match out {
                OutOfScope::Address => Reason::Scope,
                OutOfScope::Excluded => Reason::Excluded,
            });
        }
        let netns = match Reach::of(local, peer) {
            Reach::Namespace => tcp::netns_cookie(self.socket).map_err(|_| Reason::Call)?,
            Reach::Host => Key::ANY_NETNS,
        };
        let (client, server) = match self.record.role() {
            Role::Connected => (local, peer),
            Role::Accepted => (peer, local),
        };
        Key::new(netns, client, server).ok_or(Reason::Call)
    }

    /// Is it of a kind that can be upgraded?
    pub(super) fn check_kind(&self) -> Result<(), Reason> {
        if self.record.is_unix() {
            return self.check_unix_kind();
        }
        let (local, peer) = self.ends()?;
        let established = tcp::info(self.socket).is_ok_and(|info| info.state == TCP_ESTABLISHED);
        if let Some(reason) = unhooked::found() {
            return Err(reason);
        }
        let unfit = local == peer
            || !established
            || tcp::is_mptcp(self.socket)
            || crate::conn::socket_options::is_asynchronous(self.socket);
        if unfit || crate::conn::socket_options::needs_kernel(self.socket) {
            return Err(Reason::Call);
        }
        Ok(())
    }
}

/// The process that has made an offer, which must run as `uid`.
pub(super) fn pair_with(
    control: &mut Control,
    offer: &Offer,
    uid: u32,
) -> Result<Arc<Pair>, Reason> {
    let pair = names_one_user(uid).then(|| control.pair_with(offer.mailbox, uid));
    pair.flatten().ok_or(Reason::Identity)
}
