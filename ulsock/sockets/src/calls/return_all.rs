//! Before something happens that takes sockets past us: connections return to the kernel.

use std::sync::atomic::Ordering;

use crate::calls::opening;
use crate::calls::uring;
use crate::conn::Handle;
use crate::conn::handover::{self, Rest, hand_over};
use crate::ready::epoll;
use crate::runtime::{process, tracer};
use crate::state::begin::begin;
use crate::state::duplicates;
use crate::state::holders;
use crate::state::process_group;
use crate::state::record::State;
use crate::state::stats;
use crate::state::table::{self, Slot};
use os::proc;
use rendezvous::reason::Reason;
use rendezvous::tracer::mark;

/// Before libc forks and execs by itself: as before exec, and the other holder never tells us when
/// it lets go.
pub fn before_spawn() {
    return_all(Reason::Exec, true, Rest::Ours);
}

/// Before a child that duplicates descriptors on the way to its program, which nobody tells us of: as before a spawn, and
/// what has a duplicate returns, too, for such a one may be meant. The caller is Go's runtime, which has blocked all signals,
/// and keeps the thread's processor: from the next collection on all goroutines wait for it.
pub fn before_vfork() {
    let survives = |fd| !closes_on_exec(fd) || is_duplicated(fd);
    return_those(Reason::Exec, survives, Rest::OursSoon);
}

/// Has the connection several numbers, or had it?
fn is_duplicated(fd: i32) -> bool {
    if duplicates::has(fd) {
        return true;
    }
    let found = process_group::record_of(fd);
    found.is_some_and(|(family, number, _)| family.refs(number).load(Ordering::Acquire) > 1)
}

/// Before chroot: what we find by path we must find now.
pub fn before_chroot() {
    if begin().is_some() {
        proc::keep();
        stats::keep_report();
    }
}

/// The same when nobody knows which sockets the new program will get.
pub fn before_spawn_of_all() {
    return_all(Reason::Exec, false, Rest::Ours);
}

/// Something takes sockets past us: all of them return, and stay.
pub fn before_unhooked(reason: Reason) {
    process::freeze(reason);
    return_all(reason, false, Rest::StandInIfAlone);
}

/// A library is loaded whose calls pass by us, on whatever the program hands to it: as with io_uring.
pub fn before_plugin() {
    process::freeze(Reason::Plugin);
    return_all(Reason::Plugin, false, Rest::StandInIfAlone);
}

/// Before a seccomp filter loads, or descriptors become few: everything to the kernel, and then we are not there any more.
pub fn before_sandbox() {
    uring::stop_all();
    return_all(Reason::Sandbox, false, Rest::StandInIfAlone);
    process::switch_off();
    table::clear();
    tracer::mark(mark::STOP);
}

pub fn return_all(reason: Reason, survivors_only: bool, rest: Rest) {
    return_those(reason, |fd| !survivors_only || !closes_on_exec(fd), rest);
}

fn return_those(reason: Reason, returns: impl Fn(i32) -> bool, rest: Rest) {
    opening::leave_to_program(&returns);
    let Some(family) = process_group::own().filter(|_| process::is_on()) else {
        return;
    };
    let mut managed = Vec::new();
    for (fd, slot) in table::all() {
        let number = match slot {
            Slot::Record(number) if returns(fd) => number,
            Slot::Epoll(set) if returns(fd) => {
                epoll::only_by_kernel(set, fd, rest);
                continue;
            }
            _ => continue,
        };
        // Who gets it now does not count itself.
        holders::void(family.record(number));
        if family.record(number).state() == State::Managed {
            managed.push(Handle::new(family, number, fd));
        } else {
            handover::to_kernel(fd, reason);
        }
    }
    if !managed.is_empty() {
        hand_over(&managed, reason, rest);
    }
}

pub fn closes_on_exec(fd: i32) -> bool {
    // SAFETY: a number from our own table.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(fd).is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC))
}
