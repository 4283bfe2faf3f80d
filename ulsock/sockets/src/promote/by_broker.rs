//! A connection whose other end may be in another container, with which nothing is shared but the daemon of the
//! host: it is shown to that one, which finds the other end, checks that it is, and introduces the two programs.
//! Then it is claimed and confirmed as ever.

use super::attempt::{Attempt, Progress};
use super::elsewhere;
use crate::state::control::Control;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Role, State, flag};
use os::tcp;
use rendezvous::reason::Reason;

/// After attempts to find the peer by our own means, which came out like `before`.
pub fn attempt(
    attempt: &Attempt<'_>,
    control: &mut Control,
    before: Result<Progress, Reason>,
) -> Result<Progress, Reason> {
    let record = attempt.record;
    // By the peers file of the daemon, what was shown to it is for another host.
    let settled = matches!(before, Ok(Progress::Shown))
        || record.state() != State::Plain
        || record.has(flag::PINNED)
        || control.claims.contains_key(&attempt.number);
    let may_be_found = || elsewhere::is_possible(record) || attempt.may_be_translated();
    if settled || !may_be_found() || !control.has_broker() {
        return before;
    }
    let connected = record.role() == Role::Connected;
    if !connected {
        // The other end has heard it when it has looked for claims.
        hear(attempt.family, control);
    }
    match control.broker.other_end(attempt.number).cloned() {
        Some(other) if !connected => attempt.claim(control, &other.pair, other.cookie),
        // It is for the other end to claim.
        Some(_) if control.is_wanted(attempt.number) => Ok(Progress::Soon),
        Some(_) => before,
        None => seek(attempt, control, before, connected),
    }
}

fn seek(
    attempt: &Attempt<'_>,
    control: &mut Control,
    before: Result<Progress, Reason>,
    connected: bool,
) -> Result<Progress, Reason> {
    let soon = match control.broker.may_answer_soon(attempt.number) {
        Some(soon) => soon,
        None => {
            attempt.check_kind()?;
            let cookie = tcp::cookie(attempt.socket).map_err(|_| Reason::Call)?;
            let broker = &mut control.broker;
            if !broker.seek(attempt.number, cookie, connected, attempt.socket) {
                return before;
            }
            attempt.record.set(flag::PENDING);
            true
        }
    };
    if !soon {
        return before;
    }
    if let Err(reason) = before {
        attempt.record.set_reason(reason);
    }
    Ok(Progress::Soon)
}

/// Takes what the daemon of the host has said.
pub fn hear(family: &ProcessGroup, control: &mut Control) {
    let (found, refused) = control.hear_broker();
    for number in found {
        family.record(number).look_soon();
    }
    for (number, reason) in refused {
        let record = family.record(number);
        match reason {
            // Others may know better why nobody was found.
            Reason::NoPeer => {}
            Reason::OtherHost => {
                if let Some(peer) = record.peer() {
                    control.broker.note_other_host(peer.ip());
                }
                record.look_soon();
            }
            reason => record.set_reason(reason),
        }
    }
}
