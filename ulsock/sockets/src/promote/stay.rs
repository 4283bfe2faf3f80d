//! When to look no more: a connection that can only meet a peer on this host, and has met none or never will, stays
//! on the kernel.

use std::sync::atomic::Ordering;

use super::attempt::Attempt;
use crate::runtime::process;
use crate::state::control::Control;
use crate::state::daemon_client;
use crate::state::kernel_only;
use crate::state::record::{Record, flag};
use os::tcp;
use rendezvous::config::Nic;
use rendezvous::reason::Reason;

/// Both ends have made many calls by then, unless one makes a hundred for one of the other's.
const ENOUGH: u32 = 4096;

impl Attempt<'_> {
    /// Why it stays, if the daemon of this host has said that the peer's address is another host's, and takes nothing
    /// there for us.
    pub(super) fn leads_elsewhere(&self, control: &Control) -> Option<Reason> {
        let reason = match process::config().nic {
            Nic::Off => Reason::OtherHost,
            Nic::Auto if daemon_client::has_few_cpus() => Reason::FewCpus,
            _ => return None,
        };
        let peer = || tcp::peer_addr(self.socket).ok();
        let peer = self.record.peer().or_else(peer)?;
        let stays = control.broker.is_other_host(peer.ip()) && !self.is_met(control);
        stays.then_some(reason)
    }

    /// Somebody on this host is about to share rings with it.
    fn is_met(&self, control: &Control) -> bool {
        control.claims.contains_key(&self.number) || control.broker.other_end(self.number).is_some()
    }

    /// After so many calls, and no sign of a peer. The daemon would take it to another host, but has not enough
    /// CPUs for that; and programs in the containers of this host have had their time.
    pub(super) fn may_stay(&self, control: &Control, calls: u32) -> bool {
        calls >= ENOUGH
            && daemon_client::has_few_cpus()
            && self.is_to_other_host()
            && !self.is_met(control)
    }
}

/// A plain connection is one for good, and its calls cost next to nothing from now on.
pub(super) fn stay(control: &mut Control, number: u32, record: &Record) {
    control.forget(number);
    record.clear(flag::PENDING);
    record.set(flag::PINNED | flag::STAYS);
    record.next_look.store(u32::MAX, Ordering::Relaxed);
    crate::ready::epoll::stays_on_kernel(number);
    if kernel_only::is_left(record) {
        kernel_only::leave(number, record);
    }
}
