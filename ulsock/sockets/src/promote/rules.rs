//! What the rules of the configuration file say of a connection: whether it stays on kernel TCP, when it is upgraded,
//! and how large its rings may become. Without such rules that is one load, and only where promotion is decided.
//!
//! An end that a rule keeps on the kernel makes no offer and no claim, so the other end stays there, too.

use std::os::fd::{BorrowedFd, RawFd};

use super::attempt::Attempt;
use crate::runtime::process;
use crate::state::record::{Record, Role};
use crate::state::ring_pair::RingPair;
use crate::state::upgrade_history;
use os::{tcp, unix};
use rendezvous::config::rules::{Direction, Rule, Rules, Service};

impl Attempt<'_> {
    /// It is to stay on the kernel.
    pub(super) fn is_kept_by_rule(&self) -> bool {
        keep(self.record, self.socket)
    }
}

/// The same of a connection that nobody looks at.
pub(super) fn keep(record: &Record, socket: BorrowedFd<'_>) -> bool {
    let rules = &process::config().rules;
    !rules.are_none() && keeps(rules, record, socket)
}

#[cold]
fn keeps(rules: &Rules, record: &Record, socket: BorrowedFd<'_>) -> bool {
    find(rules, record, socket).is_some_and(|rule| rule.on_kernel)
}

fn find<'a>(rules: &'a Rules, record: &Record, socket: BorrowedFd<'_>) -> Option<&'a Rule> {
    let direction = direction(record);
    if record.is_unix() {
        let name = unix::service_name(socket, direction == Direction::Accept);
        return rules.find(direction, Service::Unix { name: &name });
    }
    let ask = || Some((tcp::local_addr(socket).ok()?, tcp::peer_addr(socket).ok()?));
    let known = record.local().zip(record.peer());
    let (local, peer) = known.or_else(ask)?;
    rules.find(direction, Service::of(direction, local, peer))
}

fn direction(record: &Record) -> Direction {
    match record.role() {
        Role::Connected => Direction::Connect,
        Role::Accepted => Direction::Accept,
    }
}

/// A connection has just got its record: when its first look is due, if a rule says so.
#[inline]
pub fn begin(record: &Record, fd: RawFd) {
    let rules = &process::config().rules;
    if rules.say_when() {
        set_first_look(rules, record, fd);
    }
}

#[cold]
fn set_first_look(rules: &Rules, record: &Record, fd: RawFd) {
    // SAFETY: the program is calling with this number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let rule = find(rules, record, socket);
    if let Some(after) = rule.and_then(|rule| rule.upgrade_after) {
        upgrade_history::set_after(record, after);
    }
}

/// It is about to get this ring pair.
pub(super) fn limit_rings(record: &Record, socket: BorrowedFd<'_>, link: &mut RingPair) {
    let rules = &process::config().rules;
    let rule = match rules.are_none() {
        true => None,
        false => find(rules, record, socket),
    };
    if let Some(largest) = rule.and_then(|rule| rule.largest) {
        link.largest = largest;
    }
}
