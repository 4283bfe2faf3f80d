//! Epoll sets: the program's epoll fd stays a kernel epoll fd, and managed members get their
//! readiness from us.
//!
//! A managed member's kernel registration is converted: edge-triggered with data of our own, so that
//! a FIN, an error and kernel bytes always wake and never loop. Ring events come from the boards.
//! Sets are numbered and never freed, only used again.

mod asked;
mod awake;
mod closed;
mod closing;
mod ctl;
mod events;
mod follow;
mod left;
mod look;
mod member;
mod notes;
mod numbers;
mod outside;
mod park;
mod plain;
mod room;
mod set;
mod shared;
mod state;
mod tag;
mod turns;
mod view;
mod wait;
mod wires;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::conn::handover::Rest;
use crate::runtime::handle::Handle;
use crate::runtime::process;
use crate::state::record::flag;
use crate::state::table::{self, Slot};

pub use asked::put_off;
pub use ctl::epoll_ctl;
pub use plain::KernelWait;
pub use room::time_of_wait;
pub use set::{Forked, Set};
pub use wait::{Begun, epoll_wait};

/// Epoll sets of one process at a time; more are left to the kernel alone.
const MOST_SETS: usize = 4096;

os::process_wide! {
    static SETS: [AtomicPtr<Set>; MOST_SETS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_SETS];
    static HIGHEST: AtomicU32 = AtomicU32::new(0);
}

pub fn get(number: u32) -> Option<&'static Set> {
    // SAFETY: null or leaked by `opened`.
    unsafe { SETS.get(number as usize)?.load(Ordering::Acquire).as_ref() }
}

fn all() -> impl Iterator<Item = &'static Set> {
    (0..HIGHEST.load(Ordering::Acquire)).filter_map(get)
}

/// After a successful `epoll_create`.
pub fn opened(fd: RawFd) {
    if !process::is_on() {
        return;
    }
    if let Some((number, _)) = (0..HIGHEST.load(Ordering::Acquire))
        .filter_map(|n| Some((n, get(n)?)))
        .find(|(_, set)| set.reuse())
    {
        table::set(fd, Slot::Epoll(number));
        return;
    }
    let number = HIGHEST.fetch_add(1, Ordering::AcqRel);
    if number as usize >= MOST_SETS {
        HIGHEST.store(MOST_SETS as u32, Ordering::Release);
        return;
    }
    SETS[number as usize].store(Box::into_raw(Box::new(Set::new())), Ordering::Release);
    table::set(fd, Slot::Epoll(number));
}

fn in_use() -> impl Iterator<Item = &'static Set> {
    all().filter(|set| set.numbers.load(Ordering::Acquire) > 0)
}

/// Around fork: no other thread may be halfway through a change of a set, for the child has no such
/// thread to finish it.
pub fn lock_all() {
    all().for_each(Set::lock_for_fork);
}

/// The child holds them too.
pub fn unlock_all(forked: Forked) {
    all().for_each(|set| set.unlock_after_fork(forked));
}

/// The process ends, or its sets close as it becomes another program (`yes`: they do not after all).
pub fn held_by_me(yes: bool, closes: impl Fn(RawFd) -> bool) {
    let kept: Vec<u32> = table::all()
        .filter_map(|(fd, slot)| match slot {
            Slot::Epoll(number) if !closes(fd) => Some(number),
            _ => None,
        })
        .collect();
    let numbers = (0..HIGHEST.load(Ordering::Acquire)).filter(|number| !kept.contains(number));
    let sets = numbers.filter_map(get);
    sets.filter(|set| set.numbers.load(Ordering::Acquire) > 0)
        .for_each(|set| set.held_by_me(yes));
}

/// This process becomes another program: its sets that stay open are its still, but it will not tell.
pub fn go_to_other_program(closes: impl Fn(RawFd) -> bool) {
    for (fd, slot) in table::all() {
        if let (Slot::Epoll(number), false) = (slot, closes(fd))
            && let Some(set) = get(number)
        {
            set.goes_to_other_program();
        }
    }
}

/// A number of ours for a set.
fn number_of(set: &Set) -> Option<RawFd> {
    let is_it = |slot| match slot {
        Slot::Epoll(number) => get(number).is_some_and(|other| std::ptr::eq(other, set)),
        _ => false,
    };
    table::all()
        .find(|(_, slot)| is_it(*slot))
        .map(|(fd, _)| fd)
}

/// One more number for the set.
pub fn duped(number: u32) {
    if let Some(set) = get(number) {
        set.numbers.fetch_add(1, Ordering::AcqRel);
    }
}

/// One number less.
pub fn closed(number: u32) {
    if let Some(set) = get(number)
        && set.numbers.fetch_sub(1, Ordering::AcqRel) == 1
    {
        set.clear();
    }
}

/// The set goes where we are not: its members go back to the kernel for good.
pub fn only_by_kernel(number: u32, epfd: RawFd, rest: Rest) {
    if let Some(set) = get(number) {
        set.only_by_kernel(epfd, rest);
    }
}

/// The set is polled: see [`outside`].
pub fn watch(number: u32, epfd: RawFd) {
    if let Some(set) = get(number) {
        set.watch(epfd);
    }
}

/// Before the kernel is asked about a set that is watched.
pub fn refresh(number: u32) {
    if let Some(set) = get(number) {
        set.refresh();
    }
}

/// A sleeper of this set gets up.
pub fn leave(set: *const ()) {
    // SAFETY: a set, which is never freed.
    unsafe { &*set.cast::<Set>() }.get_up();
}

/// A thread that waits in the kernel's set gets up.
pub fn end_doze(set: *const ()) {
    // SAFETY: a set, which is never freed.
    unsafe { &*set.cast::<Set>() }.end_doze();
}

/// A connection has become managed.
pub fn convert(number: u32) {
    each_member_set(number, |set, fd| set.convert(fd));
}

/// A connection is about to be plain again: the kernel watches it as the program wished.
pub fn restore(number: u32) {
    each_member_set(number, |set, fd| set.restore(fd));
}

/// It is the kernel's for good: what was noted about it is of no use any more.
pub fn stays_on_kernel(number: u32) {
    if let Some(fd) = crate::state::process_group::fd_of(number) {
        notes::forget(fd);
    }
}

/// Can all sets that it is in tell about it once it is managed?
pub fn may_convert(number: u32) -> bool {
    // A note stays one as long as the connection is the kernel's.
    if let Some(set) = crate::state::process_group::fd_of(number).and_then(notes::set_of) {
        return set.may_have_ours();
    }
    let possible = std::cell::Cell::new(true);
    each_member_set(number, |set, fd| {
        possible.set(possible.get() && set.may_convert(fd));
    });
    possible.get()
}

/// Something about the connection has changed: all sets that it is in hang up their wires, and look.
pub fn touch(handle: Handle) {
    each_member_set(handle.number, |set, fd| set.touch(fd, false));
}

/// The program shuts the connection down: the kernel wakes its sets, whatever they know.
pub fn shut_down(handle: Handle) {
    each_member_set(handle.number, Set::renew);
}

/// A send found no room and did not wait: edge-triggered members hear when there is some.
pub fn send_blocked(handle: Handle) {
    each_member_set(handle.number, |set, fd| set.touch(fd, true));
}

/// Calls for each set that any number of the record may be in.
fn each_member_set(number: u32, act: impl Fn(&Set, RawFd)) {
    let Some(family) = crate::state::process_group::own() else {
        return;
    };
    let latest = crate::state::process_group::fd_of(number);
    if let Some(fd) = latest {
        notes::adopt(family, Handle::new(family, number, fd));
    }
    if !family.record(number).has(flag::IN_EPOLL) {
        return;
    }
    let single =
        family.refs(number).load(Ordering::Relaxed) <= 1 && !family.record(number).has(flag::MOVED);
    for set in in_use() {
        match latest {
            Some(fd) if single => act(set, fd),
            _ => set.fds_of(number).into_iter().for_each(|fd| act(set, fd)),
        }
    }
}

/// A socket listens that was registered before: its events are the kernel's, as the program registered them.
pub fn is_no_connection(fd: RawFd) {
    notes::forget(fd);
    in_use().for_each(|set| set.forget(fd));
}

/// The connections that are registered in sets whose numbers `stays_open` names.
pub fn in_sets(stays_open: impl Fn(RawFd) -> bool) -> Vec<u32> {
    let sets = table::all().filter_map(|(fd, slot)| match slot {
        Slot::Epoll(set) if stays_open(fd) => get(set),
        _ => None,
    });
    let noted = |set: &Set| {
        let noted = table::all().filter_map(|(fd, slot)| match slot {
            Slot::Record(number) => notes::set_of(fd)
                .filter(|other| std::ptr::eq(*other, set))
                .map(|_| number),
            _ => None,
        });
        noted.collect::<Vec<_>>()
    };
    sets.flat_map(|set| [set.connections(), noted(set)])
        .flatten()
        .collect()
}

/// The number is about to mean another socket, and stays where it was registered: takes it out of all
/// sets.
pub fn take_out(fd: RawFd) -> Vec<Entry> {
    in_use().filter_map(|set| set.take_out(fd)).collect()
}

/// The same for what is watched at numbers of our own.
pub fn take_out_moved(number: u32) -> Vec<Entry> {
    let entries = in_use().map(|set| set.take_out_moved(number));
    entries.flatten().collect()
}

/// As the kernel's own member, for that is what it is now.
pub fn put_back(fd: RawFd, entries: Vec<Entry>) {
    for entry in entries {
        let _ = os::epoll::add(entry.epfd, fd, entry.events, entry.data);
    }
}

/// What was registered for a number in one set.
pub struct Entry {
    epfd: RawFd,
    events: u32,
    data: u64,
}

/// Before a number is closed, or when it is found closed.
pub fn number_closes(fd: RawFd, number: u32) {
    let Some(family) = crate::state::process_group::own() else {
        return;
    };
    notes::forget(fd);
    let record = family.record(number);
    if !record.has(flag::IN_EPOLL) {
        return;
    }
    let is_other = |(other, slot): &(RawFd, Slot)| *slot == Slot::Record(number) && *other != fd;
    let other = (family.refs(number).load(Ordering::Relaxed) > 1)
        .then(|| table::all().find(is_other))
        .flatten();
    if let Some((other, _)) = other {
        record.set(flag::MOVED);
        let other = Handle::new(family, number, other);
        in_use().for_each(|set| set.one_closes(fd, other));
        return;
    }
    // One that is on the kernel for good may have been passed on; one that a call keeps stays in the kernel's set.
    let shared = record.procs.load(Ordering::Acquire) > 1
        || record.has(flag::PINNED | flag::SLIP)
        || crate::conn::kept::has_callers(family, number);
    let moved = record.has(flag::MOVED);
    in_use().for_each(|set| set.last_closes(fd, number, shared, moved));
}

/// Is the number in a set, as a plain connection that need not be followed?
pub fn is_noted(fd: RawFd) -> bool {
    notes::has(fd)
}

/// A connection has one more number: what was noted for its only one is followed from here on.
pub fn no_longer_single(handle: Handle) {
    if let Some(family) = crate::state::process_group::own() {
        notes::adopt(family, handle);
    }
}

/// After a number has come to mean a connection.
pub fn number_comes(fd: RawFd, number: u32) {
    if let Some(family) =
        crate::state::process_group::own().filter(|f| f.record(number).has(flag::MOVED))
    {
        let handle = Handle::new(family, number, fd);
        in_use().for_each(|set| set.comes_back(handle));
    }
}
