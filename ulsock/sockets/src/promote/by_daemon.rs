//! A connection to another host: it is shown to the daemon of this one, and has rings when that and the
//! peer's daemon have both been shown their ends.

use std::os::fd::BorrowedFd;

use super::attempt::{Attempt, Progress};
use super::confirm::establish;
use super::elsewhere;
use crate::conn::nic;
use crate::state::control::Control;
use crate::state::daemon_client::{self, DaemonAnswer};
use crate::state::record::{Role, State, flag};
use os::tcp;
use rendezvous::channel::Channel;
use rendezvous::reason::Reason;

/// After an attempt to find the peer on this host, which came out like `here`.
pub fn attempt(
    attempt: &Attempt<'_>,
    control: &mut Control,
    here: Result<Progress, Reason>,
) -> Result<Progress, Reason> {
    let netns = tcp::netns_cookie(attempt.socket).map_err(|_| Reason::Call)?;
    if control.daemon(netns).is_none() {
        return without(attempt, control, netns, here);
    }
    take_answers(attempt, control, netns);
    // Who is on this host, in another network namespace, needs no daemon.
    if attempt.record.role() == Role::Accepted && here.is_ok() {
        return here;
    }
    if attempt.record.state() != State::Plain || attempt.record.has(flag::PINNED) {
        return Ok(Progress::Waiting);
    }
    let Some((pair, daemons)) = control.daemon(netns) else {
        return here;
    };
    if let Some(refusal) = daemons.refusal(attempt.number) {
        return match here {
            Err(Reason::NoPeer) => Err(refusal),
            other => other,
        };
    }
    let cookie = tcp::cookie(attempt.socket).map_err(|_| Reason::Call)?;
    if daemons.has_shown(cookie) {
        return Ok(Progress::Shown);
    }
    if let Some(reason) = nic::stays_plain(attempt.record) {
        return not_shown(attempt, here, reason);
    }
    attempt.check_kind()?;
    let connected = attempt.record.role() == Role::Connected;
    if !daemons.show(&pair, attempt.number, cookie, connected, attempt.socket) {
        return here;
    }
    attempt.record.set(flag::PENDING);
    attempt.record.set_reason(Reason::NoPeer);
    Ok(Progress::Shown)
}

/// It is not shown yet. Its peer may be on this host.
fn not_shown(
    attempt: &Attempt<'_>,
    here: Result<Progress, Reason>,
    reason: Reason,
) -> Result<Progress, Reason> {
    match here {
        Err(Reason::NoPeer | Reason::Scope) => Err(reason),
        Ok(Progress::Waiting) => {
            attempt.record.set_reason(reason);
            here
        }
        _ => here,
    }
}

/// No daemon leads it to another host. Its peer may yet turn out to be on this one, if that is in scope.
fn without(
    attempt: &Attempt<'_>,
    control: &Control,
    netns: u64,
    here: Result<Progress, Reason>,
) -> Result<Progress, Reason> {
    let record = attempt.record;
    let is_there = || Channel::daemon_is_there(control.dir(), netns);
    let known = record.reason() == Reason::FewCpus;
    let shunned = daemon_client::has_few_cpus() && (known || is_there());
    if matches!(here, Err(Reason::Scope)) {
        record.set(flag::PINNED);
    }
    match here {
        Err(Reason::Scope | Reason::NoPeer) if shunned => Err(Reason::FewCpus),
        Ok(_) if shunned && record.reason() == Reason::NoPeer => {
            record.set_reason(Reason::FewCpus);
            here
        }
        _ => here,
    }
}

fn take_answers(attempt: &Attempt<'_>, control: &mut Control, netns: u64) {
    let Some((pair, daemons)) = control.daemon(netns) else {
        return;
    };
    for (number, answer) in daemons.answers(&pair) {
        let record = attempt.family.record(number);
        match answer {
            DaemonAnswer::Refused(reason) => {
                record.set_reason(reason);
                if !elsewhere::is_possible(record) {
                    record.set(flag::PINNED);
                }
            }
            DaemonAnswer::Claimed(link) => {
                let fd = crate::state::process_group::fd_of(number);
                let Some(fd) = fd.filter(|_| !control.claims.contains_key(&number)) else {
                    control.retire(link);
                    continue;
                };
                // SAFETY: the number was taken from our own table just now.
                let socket = unsafe { BorrowedFd::borrow_raw(fd) };
                nic::begin(record);
                establish(attempt.family, control, number, socket, link);
            }
        }
    }
}
