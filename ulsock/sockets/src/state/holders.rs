//! How many processes hold a connection that was passed on, by its [slip](crate::state::slips).

use std::sync::atomic::Ordering;

use crate::runtime::process;
use crate::runtime::thread;
use crate::state::record::{Record, State, flag};
use crate::state::slips;
use rendezvous::reason::Reason;

/// The connection stays on the kernel, wherever it was passed to.
pub fn void(record: &Record) {
    if !record.has(flag::SLIP) {
        return;
    }
    match slips::open() {
        Some(slips) => slips.void(record.cookie.load(Ordering::Acquire)),
        // Nor is our share ever given back.
        None => {
            record.set(flag::PINNED);
            record.clear(flag::SLIP);
        }
    }
}

/// The last process of this family lets go of it. `idle`: no call of another thread is under way on it.
pub fn let_go(record: &Record, idle: bool) {
    if !record.has(flag::SLIP) {
        return;
    }
    if !idle || calls_may_last(record) || process::is_frozen() {
        return void(record);
    }
    if let Some(slips) = slips::open() {
        slips.leave(record.cookie.load(Ordering::Acquire));
    }
}

/// May a call of another thread be under way that nobody has counted?
fn calls_may_last(record: &Record) -> bool {
    match record.state() {
        State::Managed => record.reason() != Reason::Passed || !thread::is_alone(),
        _ => record.has(flag::STAYS | flag::PINNED),
    }
}

/// Does nobody hold it but the processes that share its record? Then it is as if it never had been passed.
pub fn is_alone(record: &Record) -> bool {
    if !record.has(flag::SLIP) {
        return true;
    }
    let cookie = record.cookie.load(Ordering::Acquire);
    let alone = slips::open().is_some_and(|slips| slips.end(cookie));
    if alone {
        record.clear(flag::SLIP);
    }
    alone
}
