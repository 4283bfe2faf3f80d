//! From plain kernel TCP to a ring pair: offer, claim, confirm.
//!
//! Called at a few of a connection's data calls (the 1st, 2nd, 4th, 8th... after it has shown that
//! it lives). The connecting side offers, the accepting side claims, the connecting side confirms;
//! each checks the other end with the kernel before it shares memory with it. Nobody waits.

pub mod at_once;
mod attempt;
mod by_broker;
mod by_daemon;
mod confirm;
mod elsewhere;
pub mod for_good;
pub mod hope;
pub mod rules;
mod stay;
mod translated;
pub mod unhooked;
mod unix;

#[cfg(test)]
mod tests;

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use crate::conn::nic;
use crate::runtime::process;
use crate::runtime::thread::Thread;
use crate::state::control::Control;
use crate::state::control::Locked;
use crate::state::orders;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Record, Role, State, flag};
use attempt::{Attempt, Progress};
use os::tcp;
use rendezvous::reason::Reason;

/// Calls at which a look may be put off because the control state was in use.
const MOST_MISSED: u32 = 4;
/// Looks are spaced by at most this many calls.
const FARTHEST_LOOK: u32 = 256;
/// A connection whose calls move so many bytes on average loses most by a late look: they are no farther apart, among its
/// first calls. A look takes 1 to 2 us, less than such a call.
const BULK: u64 = 2048;
const BULK_LOOK: u32 = 4;
const BULK_CALLS: u32 = 512;
/// Between looks for an answer of the daemons, where the program leaves it to us whether there shall be one.
const ANSWER_LOOK: u32 = 16;
/// After the link was slower than the kernel: for a second or more nobody tries it.
const SLOWER_LOOK: u32 = 16_384;

/// Counts a data call on a plain connection and, now and then, tries to upgrade it.
#[inline]
pub fn note_call(family: &ProcessGroup, number: u32, record: &Record, fd: RawFd) {
    let calls = record.calls.load(Ordering::Relaxed).wrapping_add(1);
    record.calls.store(calls, Ordering::Relaxed);
    if calls >= record.next_look.load(Ordering::Relaxed) {
        look_at_call(family, number, record, fd, calls);
    }
}

#[cold]
fn look_at_call(family: &ProcessGroup, number: u32, record: &Record, fd: RawFd, calls: u32) {
    if record.has(flag::ORDERED) {
        take_order(record);
    }
    look(family, number, record, fd, calls);
    if calls == 1 {
        at_once::at_first_call(family, number, fd);
    }
}

/// What is asked of it from outside. It is held back as long as that stands; otherwise this look is its first.
#[cold]
fn take_order(record: &Record) {
    orders::take(record);
    if !orders::keep_on_kernel(record) {
        record.first_look.store(1, Ordering::Relaxed);
        if record.reason() == Reason::Ordered {
            record.set_reason(Reason::Young);
        }
    }
}

/// One look at a connection that is still plain. Whoever finds a reason against it says when to look again.
fn look(family: &ProcessGroup, number: u32, record: &Record, fd: RawFd, calls: u32) {
    let after = record.first_look.load(Ordering::Relaxed);
    if calls < after {
        return record.next_look.store(after, Ordering::Relaxed);
    }
    if !may_look_now(record) {
        return;
    }
    let Some(mut locked) = lock(calls.wrapping_sub(record.next_look.load(Ordering::Relaxed)))
    else {
        return;
    };
    let Some(control) = locked.control() else {
        let later = calls.saturating_add(FARTHEST_LOOK);
        record.set_reason(Reason::RunDir);
        return record.next_look.store(later, Ordering::Relaxed);
    };
    // Another thread may have finished it before we got the lock.
    if record.state() != State::Plain {
        return;
    }
    if record.has(flag::PARTED) && !control.drop_retired() {
        record.set_reason(Reason::PeerGone);
        return record.next_look.store(calls + 1, Ordering::Relaxed);
    }
    if record.has(flag::PINNED) {
        return stay::stay(control, number, record);
    }
    let farthest = match calls < BULK_CALLS && moves_bulk(record, calls) {
        true => BULK_LOOK,
        false => FARTHEST_LOOK,
    };
    let step = calls.saturating_sub(after).clamp(1, farthest);
    record
        .next_look
        .store(calls.saturating_add(step), Ordering::Relaxed);
    if let Some(reason) = confirm::held_back(number, record) {
        withdraw(family, control, number, record);
        return put_off(record, fd, calls, reason);
    }
    record.pid.store(os::pid::get(), Ordering::Relaxed);
    // SAFETY: the program is calling with this fd; if it closes it meanwhile, the calls below fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let attempt = Attempt {
        family,
        number,
        record,
        socket,
    };
    if attempt.is_kept_by_rule() {
        record.set_reason(Reason::Rule);
        return stay::stay(control, number, record);
    }
    if let Some(reason) = attempt.leads_elsewhere(control) {
        record.set_reason(reason);
        return stay::stay(control, number, record);
    }
    let result = in_every_way(&attempt, control);
    conclude(&attempt, control, calls, result);
}

fn moves_bulk(record: &Record, calls: u32) -> bool {
    let carried = record.carried().map(|count| count.load(Ordering::Relaxed));
    carried.iter().sum::<u64>() >= BULK * u64::from(calls)
}

/// It must not have rings now. An order stands until another comes, which says so.
fn put_off(record: &Record, fd: RawFd, calls: u32, reason: Reason) {
    record.set_reason(reason);
    if reason == Reason::Ordered {
        note_addresses(record, fd);
        let later = calls.saturating_add(FARTHEST_LOOK);
        record.next_look.store(later, Ordering::Relaxed);
    }
}

/// Who orders names connections by them, and otherwise an attempt would have asked for them first.
fn note_addresses(record: &Record, fd: RawFd) {
    // SAFETY: the program is calling with this fd; if it closes it meanwhile, the questions fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    if record.local().is_none()
        && let (Ok(local), Ok(peer)) = (tcp::local_addr(socket), tcp::peer_addr(socket))
    {
        record.set_addresses(local, peer);
    }
}

/// Whether this process and this thread may upgrade at all; if not, the record says why.
fn may_look_now(record: &Record) -> bool {
    if let Some(reason) = process::frozen_for() {
        if !record.has(flag::PINNED) {
            record.set_reason(reason);
        }
        record.next_look.store(u32::MAX, Ordering::Relaxed);
        return false;
    }
    // Upgrading takes memory, which a signal handler must not.
    let reason = match Thread::me() {
        None => Reason::Memory,
        Some(me) if me.in_handler() => Reason::Handler,
        Some(_) => return true,
    };
    record.set_reason(reason);
    false
}

/// By the run directory; to another host by the daemon; between containers by the host's.
fn in_every_way(attempt: &Attempt<'_>, control: &mut Control) -> Result<Progress, Reason> {
    let role = attempt.record.role();
    let was_offered = control.offers.contains_key(&attempt.number);
    let here = match role {
        Role::Connected => attempt.as_connected(control),
        Role::Accepted => attempt.as_accepted(control),
    };
    let may_seek = match role {
        // Who shares our run directory has not taken the offer.
        Role::Connected => was_offered,
        Role::Accepted => match here {
            Err(Reason::NoPeer) => true,
            Err(Reason::Identity) => attempt.is_redirected(),
            _ => false,
        },
    };
    let result = match attempt.is_to_other_host() {
        true => by_daemon::attempt(attempt, control, here),
        false => here,
    };
    match may_seek {
        true => by_broker::attempt(attempt, control, result),
        false => result,
    }
}

/// What has come of it: when to look again, or the reason why not.
fn conclude(
    attempt: &Attempt<'_>,
    control: &mut Control,
    calls: u32,
    result: Result<Progress, Reason>,
) {
    let record = attempt.record;
    let is_close = matches!(result, Ok(Progress::Soon | Progress::Shown));
    if !is_close && attempt.may_stay(control, calls) {
        stay::stay(control, attempt.number, record);
    }
    match result {
        Ok(Progress::Waiting) => {}
        // Its other end decides whether it ever comes, and when.
        Ok(Progress::Shown) if nic::is_asked() => {
            if record.role() == Role::Connected {
                record
                    .next_look
                    .store(calls + ANSWER_LOOK, Ordering::Relaxed);
            }
        }
        // The answer may come any time now: look again soon.
        Ok(Progress::Soon | Progress::Shown) => {
            record.next_look.store(calls + 1, Ordering::Relaxed);
        }
        // It has withdrawn its offer, for the reason that it gave.
        Err(Reason::NoPeer) if record.has(flag::REFUSED) => {}
        Err(reason) => record.set_reason(reason),
    }
    if record.reason() == Reason::Slower && !record.has(flag::PINNED) {
        let later = calls.saturating_add(SLOWER_LOOK);
        record.next_look.store(later, Ordering::Relaxed);
    }
}

/// Before others get the connection too, who would offer or claim it anew; it is known already that it must not have
/// rings now. Afterwards no thread is about to give it some. `false`: nobody can say so.
pub fn hold_back(family: &ProcessGroup, number: u32) -> bool {
    let Some(mut locked) = Locked::wait() else {
        return false;
    };
    let (Some(control), record) = (locked.control(), family.record(number)) else {
        return false;
    };
    withdraw(family, control, number, record);
    if let Some(link) = control.claims.get(&number) {
        // The other end may be taking it up just now.
        link.part();
        control.forget(number);
        record.clear(flag::PENDING);
    }
    true
}

/// The other end may have answered the offer: it is told why not, and finds no more of it.
fn withdraw(family: &ProcessGroup, control: &mut Control, number: u32, record: &Record) {
    if control.offers.contains_key(&number) {
        confirm::answer_claims(family, control);
        if record.state() == State::Plain {
            control.forget(number);
            record.clear(flag::PENDING);
        }
    }
}

/// If somebody else is at it, this connection's turn comes at its next call; but on a crowded
/// machine somebody always is, so after a few calls it waits.
fn lock(missed: u32) -> Option<Locked> {
    if missed < MOST_MISSED {
        Locked::take()
    } else {
        Locked::wait()
    }
}
