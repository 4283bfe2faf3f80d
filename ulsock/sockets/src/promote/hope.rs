//! Whether a connection that kernel TCP still carries is likely to get its rings soon. A program that is about to choose, for
//! as long as the connection lasts, between a call that we carry and one that only the kernel can carry, is then led to the
//! first: otherwise it would choose before there is anything to choose.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use super::rules;
use crate::runtime::process;
use crate::state::orders;
use crate::state::record::{Record, State, flag};
use crate::state::upgrade_history;
use os::tcp;
use rendezvous::config::Reach;

/// Data calls between the first look and the last that a peer is hoped for. Both ends have made theirs by then, where one
/// does not make ten for one of the other's.
const PATIENCE: u32 = 64;

/// By what costs no lock, and two system calls at most.
pub fn is_likely(record: &Record, fd: RawFd) -> bool {
    let never = flag::PINNED | flag::STAYS | flag::REFUSED;
    record.state() == State::Plain
        && record.is_connection()
        && !record.is_unix()
        && !record.has(never)
        && is_early(record)
        && process::frozen_for().is_none()
        && !orders::keep_on_kernel(record)
        && !upgrade_history::is_in_vain(record)
        && is_within_reach(record, fd)
}

/// Who has been told to look late is not to get rings soon.
fn is_early(record: &Record) -> bool {
    let first = record.first_look.load(Ordering::Relaxed);
    let [.., latest] = upgrade_history::range();
    first <= latest && record.calls.load(Ordering::Relaxed) < first + PATIENCE
}

/// Both ends are on this host, as far as addresses tell, and may leave the kernel. Whether another host takes it to the link
/// is not known before it is asked; so bytes that go there are spliced.
fn is_within_reach(record: &Record, fd: RawFd) -> bool {
    // SAFETY: the program is calling with this number; if it closes it meanwhile, the questions fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let local = record.local().or_else(|| tcp::local_addr(socket).ok());
    let Some((local, peer)) = local.zip(record.peer()) else {
        return false;
    };
    local != peer
        && Reach::of(local, peer) == Reach::Namespace
        && process::config().scope.check(Some(local), peer).is_ok()
        && !rules::keep(record, socket)
}
