//! How a Unix connection gets by without a record ([`crate::state::young`]), and how it gets one when it needs it: at the data
//! call from which on an upgrade is worth while, or before something can reach the socket in a second way.

#[cfg(test)]
mod tests;

use std::os::fd::RawFd;

use super::{give_back, note_number, note_opened};
use crate::conn::release::let_go;
use crate::runtime::process;
use crate::runtime::thread::{Critical, Thread};
use crate::state::give_record::claim;
use crate::state::process_group;
use crate::state::record::{Record, Role, flag};
use crate::state::table::{self, Slot};
use crate::state::upgrade_history;
use crate::state::young::{self, Growing};
use shm::order;

/// A signal handler must not take memory: a later call does.
const AFTER_HANDLER: u32 = 1;

/// A Unix socket is connected, or about to be; `false`: it cannot be young. In the table is what `was` there.
pub(super) fn begin(fd: RawFd, role: Role, facts: u32, kin: u32, was: Slot) -> bool {
    let history = upgrade_history::key(role, kin);
    let after = upgrade_history::after(history);
    // Of 0, a test aid, records know, and of rules that say when; and stdio reads and writes 0 to 2 inside libc, past
    // our hooks.
    if after == 0 || fd <= 2 || process::config().rules.say_when() {
        return false;
    }
    let facts = match role {
        Role::Connected => facts | young::CONNECTED,
        Role::Accepted => facts,
    };
    let Some(life) = young::born(fd, facts, history, after) else {
        return false;
    };
    table::change(fd, was, Slot::Young(life))
}

/// After `connect`. One that has failed leaves the socket as it was.
pub(super) fn connect_ended(fd: RawFd, life: u32, done: bool) {
    if young::connect_ended(fd) && !done {
        table::change(fd, Slot::Young(life), Slot::Fresh);
    } else if done {
        order::spoke_by_kernel();
    }
}

/// May a data call give it a record?
pub fn may_grow(fd: RawFd) -> bool {
    if process::is_frozen() {
        // Nobody would manage it.
        young::put_off(fd, u32::MAX);
        return false;
    }
    let may = Thread::me().is_some_and(|me| !me.in_handler());
    if !may {
        young::put_off(fd, AFTER_HANDLER);
    }
    may
}

/// A young connection gets a record; afterwards it is young no more. If none can be had, it is the kernel's for good.
#[cold]
pub fn grow_up(fd: RawFd) -> Option<u32> {
    // No handler finds it half done.
    let _critical = Critical::enter();
    loop {
        let Slot::Young(life) = table::get(fd) else {
            return match table::get(fd) {
                Slot::Record(number) => Some(number),
                _ => None,
            };
        };
        match Growing::begin(fd, life) {
            Some(growing) => give_record(fd, life, growing),
            // Another thread is at it.
            None => std::thread::yield_now(),
        }
    }
}

fn give_record(fd: RawFd, life: u32, growing: Growing) {
    let takes_memory = process_group::own().is_none();
    let may = !takes_memory || Thread::known().is_some_and(|me| !me.in_handler());
    let Some((family, number)) = may.then(claim).flatten() else {
        growing.give_up();
        table::change(fd, Slot::Young(life), Slot::Foreign);
        return;
    };
    prepare(family.record(number), &growing);
    note_number(family, number, fd);
    let young = Slot::Young(life);
    let named = growing.publish(family, number, || {
        table::change(fd, young, Slot::Record(number))
    });
    match named {
        Some(true) => note_opened(family, number),
        // Closed meanwhile.
        Some(false) => let_go(family, number),
        // Another thread was faster.
        None => {
            family.record(number).unset_unix();
            give_back(family, number);
        }
    }
}

fn prepare(record: &Record, growing: &Growing) {
    record.put(flag::CONNECTED, growing.has(young::CONNECTED));
    record.put(flag::NONBLOCK, growing.has(young::NONBLOCK));
    record.set_unix();
    upgrade_history::born(record, growing.history(), growing.calls());
}
