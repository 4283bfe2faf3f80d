//! A test aid: with `ULSOCK_UPGRADE_AFTER=0` a connection gets its ring pair in connect and accept
//! already, so that tests which make two calls on a connection make them on a ring.
//!
//! Here, and only here, one end waits for the other, a moment long: connect until somebody claims,
//! accept until the other end has come out of its connect, and the connecting end once more at its
//! first call, for a single large send could be all that it does. Who is not there in time is upgraded
//! at a later call, as ever.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::confirm::answer_claims;
use super::look;
use crate::conn::{self, Handle};
use crate::runtime::deadline::Deadline;
use crate::state::control::Locked;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Record, Role, State, flag};
use rendezvous::reason::Reason;

/// How long each end waits. A connect is often followed by the accept of the same thread.
const CONNECT: Duration = Duration::from_millis(5);
const ACCEPT: Duration = Duration::from_millis(20);
const FIRST_CALL: Duration = Duration::from_millis(20);
const NAP: Duration = Duration::from_micros(100);

/// A connection has just got its record.
#[inline]
pub fn begin(family: &'static ProcessGroup, number: u32, fd: RawFd) {
    if is_wanted(family.record(number)) {
        upgrade(
            family,
            number,
            fd,
            match family.record(number).role() {
                Role::Connected => CONNECT,
                Role::Accepted => ACCEPT,
            },
        );
    }
}

/// By the configuration, or by a rule for this connection. What is learned is never 0.
#[inline]
fn is_wanted(record: &Record) -> bool {
    record.first_look.load(Ordering::Relaxed) == 0
}

/// The first data call on a connection that is still plain.
pub fn at_first_call(family: &ProcessGroup, number: u32, fd: RawFd) {
    let record = family.record(number);
    let late = record.state() == State::Plain && record.role() == Role::Connected;
    if late && is_wanted(record) {
        upgrade(family, number, fd, FIRST_CALL);
    }
}

#[cold]
fn upgrade(family: &ProcessGroup, number: u32, fd: RawFd, patience: Duration) {
    let record = family.record(number);
    let deadline = Deadline::after(patience);
    loop {
        look(family, number, record, fd, 0);
        let answered = answer_own(family);
        let ready = match record.state() {
            State::Managed => conn::begin_now(Handle::new(family, number, fd)),
            // A connect that does not wait for the other end may still be under way.
            _ if record.reason() == Reason::Call => record.role() == Role::Accepted,
            // Anything but waiting for the other end is not worth waiting for.
            _ => record.has(flag::PINNED) || !may_answer(record.reason()),
        };
        if ready || deadline.passed() {
            return;
        }
        if !answered {
            std::thread::sleep(NAP);
        }
    }
}

/// The other end has not answered yet, as far as this reason tells.
fn may_answer(reason: Reason) -> bool {
    use Reason::{FewCpus, NoPeer, Unanswered, Young};
    matches!(reason, Young | NoPeer | Unanswered | FewCpus)
}

/// The other end may be a connection of this very process, whose thread is busy here or elsewhere.
fn answer_own(family: &ProcessGroup) -> bool {
    let mut answered = Vec::new();
    if let Some(mut locked) = Locked::take()
        && let Some(control) = locked.control()
    {
        answered = answer_claims(family, control);
    }
    for number in &answered {
        if let Some(fd) = crate::state::process_group::fd_of(*number) {
            conn::begin_now(Handle::new(family, *number, fd));
        }
    }
    !answered.is_empty()
}
