//! Claims of connections whose other end is in another network namespace of this host.
//!
//! There our own sock_diag sees nothing, so nobody knows whose the other end is: every user's table is
//! looked through, and whoever has made an offer must let us ask about the socket through a
//! [window](os::window) into its namespace. Nobody waits: the windows come at later calls.

use std::net::SocketAddr;
use std::sync::Arc;

use super::attempt::{Attempt, Progress, pair_with};
use super::confirm::answer_claims;
use crate::runtime::process;
use crate::state::control::Control;
use crate::state::record::Record;
use os::diag;
use os::diag::OtherEnd;
use rendezvous::config::Reach;
use rendezvous::offers::{Key, Offer};
use rendezvous::pair::Pair;
use rendezvous::reason::Reason;

/// May its other end be in another network namespace of this host?
pub(super) fn is_possible(record: &Record) -> bool {
    let ends = record.local().zip(record.peer());
    ends.is_some_and(|(local, peer)| {
        let scope = &process::config().scope;
        Reach::of(local, peer) == Reach::Host && scope.check(Some(local), peer).is_ok()
    })
}

/// The other end of a connection that the process at the other end of `pair` has claimed. What is in our own
/// network namespace only a process of this namespace can claim: with a shared run directory, others have our uid.
pub(super) fn other_end(pair: &Pair, local: &SocketAddr, peer: &SocketAddr) -> Option<OtherEnd> {
    if let Some(here) = diag::other_end(local, peer).ok().flatten() {
        return Some(here).filter(|_| pair.is_near());
    }
    let may_be_elsewhere = Reach::of(*local, *peer) == Reach::Host;
    through_window(pair, local, peer).filter(|_| may_be_elsewhere)
}

fn through_window(pair: &Pair, local: &SocketAddr, peer: &SocketAddr) -> Option<OtherEnd> {
    pair.window()?.other_end(local, peer).ok().flatten()
}

impl Attempt<'_> {
    pub(super) fn claim_elsewhere(
        &self,
        control: &mut Control,
        key: &Key,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<Progress, Reason> {
        // What has been shown to us lies in our mailbox.
        answer_claims(self.family, control);
        let mut result = Err(Reason::NoPeer);
        for (offer, uid) in control.offers_of_any(key) {
            let pair = pair_with(control, &offer, uid);
            let ends = (&local, &peer);
            let claimed = pair.and_then(|pair| self.claim_through(control, &pair, &offer, ends));
            if control.claims.contains_key(&self.number) {
                return claimed;
            }
            // Anybody can make an offer of it: another may lead to the other end.
            if result.is_err() {
                result = claimed;
            }
        }
        result
    }

    fn claim_through(
        &self,
        control: &mut Control,
        pair: &Arc<Pair>,
        offer: &Offer,
        (local, peer): (&SocketAddr, &SocketAddr),
    ) -> Result<Progress, Reason> {
        if pair.window().is_none() {
            self.record.set_reason(Reason::NoPeer);
            if pair.is_suspect() || !control.ask_to_look(pair, offer) {
                return Err(Reason::Identity);
            }
            return Ok(match pair.may_show_soon() {
                true => Progress::Soon,
                false => Progress::Waiting,
            });
        }
        let other = through_window(pair, local, peer);
        let genuine =
            other.is_some_and(|other| other.cookie == offer.cookie && other.uid == pair.peer().uid);
        if !genuine {
            return Err(Reason::Identity);
        }
        self.claim(control, pair, offer.cookie)
    }
}
