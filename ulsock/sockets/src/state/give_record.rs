//! A record for a socket that has none yet.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use crate::runtime::upcalls;
use crate::state::begin::begin;
use crate::state::process_group::ProcessGroup;
use crate::state::record::flag;
use crate::state::table::{self, Slot};
use crate::state::upgrade_history;
use os::pid;
use rendezvous::reason::Reason;

/// The record of a socket that has none yet. If none can be had, the socket is the kernel's for good.
pub fn give_record(fd: RawFd) -> Option<u32> {
    if let Slot::Young(_) = table::get(fd) {
        return (upcalls::get().grow_up)(fd);
    }
    let Some((family, number)) = claim() else {
        table::change(fd, Slot::Fresh, Slot::Foreign);
        return None;
    };
    let record = family.record(number);
    upgrade_history::not_yet(record);
    if table::change(fd, Slot::Fresh, Slot::Record(number)) {
        note_number(family, number, fd);
        return Some(number);
    }
    give_back(family, number);
    // Another thread was faster.
    match table::get(fd) {
        Slot::Record(number) => Some(number),
        _ => None,
    }
}

pub fn claim() -> Option<(&'static ProcessGroup, u32)> {
    let family = begin()?;
    let number = family.claim()?;
    let record = family.record(number);
    record.pid.store(pid::get(), Ordering::Relaxed);
    Some((family, number))
}

/// Nobody has seen it.
pub fn give_back(family: &ProcessGroup, number: u32) {
    family.refs(number).store(0, Ordering::Relaxed);
    family.free(number);
}

pub fn note_number(family: &ProcessGroup, number: u32, fd: RawFd) {
    let word = family.fd_word(number);
    word.store(fd as u32 + 1, Ordering::Relaxed);
    if fd <= 2 {
        // stdio reads and writes these inside libc, past our hooks.
        let record = family.record(number);
        record.set(flag::PINNED);
        record.set_reason(Reason::Stdio);
    }
}
