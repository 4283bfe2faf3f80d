//! Epoll sets: the program's epoll fd stays a kernel epoll fd, and managed members get their
//! readiness from us.
//!
//! A managed member's kernel registration is converted: edge-triggered with data of our own, so that
//! a FIN, an error and kernel bytes always wake and never loop. Ring events come from the boards.
//! Sets are numbered and never freed, only used again.

mod ctl;
mod kernel;
mod member;
mod set;
mod wait;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::conn::Handle;
use crate::process;
use crate::record::flag;
use crate::table::{self, Slot};

pub use ctl::epoll_ctl;
pub use set::Set;
pub use wait::epoll_wait;

/// Epoll sets of one process at a time; more are left to the kernel alone.
const MOST: usize = 4096;

static SETS: [AtomicPtr<Set>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
static HIGHEST: AtomicU32 = AtomicU32::new(0);

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
    if number as usize >= MOST {
        HIGHEST.store(MOST as u32, Ordering::Release);
        return;
    }
    SETS[number as usize].store(Box::into_raw(Box::new(Set::new())), Ordering::Release);
    table::set(fd, Slot::Epoll(number));
}

/// Around fork: no other thread may be halfway through a change of a set, for the child has no such
/// thread to finish it.
pub fn lock_all() {
    all().for_each(Set::lock_for_fork);
}

pub fn unlock_all() {
    all().for_each(Set::unlock_after_fork);
}

/// One more number for the set.
pub fn duped(number: u32) {
    if let Some(set) = get(number) {
        set.numbers.fetch_add(1, Ordering::AcqRel);
    }
}

/// One number less.
pub fn closed(number: u32) {
    if let Some(set) = get(number) {
        if set.numbers.fetch_sub(1, Ordering::AcqRel) == 1 {
            set.clear();
        }
    }
}

/// The set is waited for in a way that only the kernel sees (nested, or in poll): its members go
/// back to the kernel for good.
pub fn only_by_kernel(number: u32, epfd: RawFd) {
    if let Some(set) = get(number) {
        set.only_by_kernel(epfd);
    }
}

/// A connection has become managed.
pub fn convert(number: u32) {
    each_member_set(number, |set, fd| set.convert(fd));
}

/// Its receiving direction is under management: wires for all sets that it is in.
pub fn arm_members(handle: Handle) {
    each_member_set(handle.number, |set, fd| set.touch(fd));
}

/// A send found the ring full and did not wait: edge-triggered members hear when there is room.
pub fn send_blocked(handle: Handle) {
    each_member_set(handle.number, |set, fd| set.touch(fd));
}

/// Calls for each set that any number of the record may be in.
fn each_member_set(number: u32, act: impl Fn(&Set, RawFd)) {
    let Some(family) = process::family() else {
        return;
    };
    if !family.record(number).has(flag::IN_EPOLL) {
        return;
    }
    let single = family.refs(number).load(Ordering::Relaxed) <= 1;
    let latest = crate::lifecycle::fd_of(number);
    for set in all() {
        match latest {
            Some(fd) if single => act(set, fd),
            _ => set.fds_of(number).into_iter().for_each(|fd| act(set, fd)),
        }
    }
}

/// Before a number is closed.
pub fn number_closes(fd: RawFd, number: u32) {
    let Some(family) = process::family() else {
        return;
    };
    if family.record(number).has(flag::IN_EPOLL) {
        let shared = family.refs(number).load(Ordering::Relaxed) > 1;
        all().for_each(|set| set.number_closes(fd, shared));
    }
}
