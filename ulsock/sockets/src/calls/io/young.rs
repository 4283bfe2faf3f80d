//! Data calls on young connections ([`crate::state::young`]): the kernel's, counted on their way.

use libc::c_int;

use super::{Carry, KERNEL_ONLY, Way, carry_record, enter};
use crate::calls::opening;
use crate::state::process_group;
use crate::state::table::{self, Slot};
use crate::state::verdict::Verdict;
use crate::state::young::{self, Entered, YoungCall};
use rendezvous::reason::Reason;

/// A call in the usual case: below the number of calls from which on there is a record.
#[inline]
pub(super) fn first(fd: c_int, life: u32, way: Way, flags: c_int) -> Option<YoungCall> {
    if flags & (KERNEL_ONLY | libc::MSG_ERRQUEUE) != 0 || young::count_call(fd) {
        return None;
    }
    match young::enter(fd, life, way) {
        Entered::Young(call) => Some(call.with_flags(flags)),
        _ => None,
    }
}

/// `life` is what the table says of the number.
#[inline(never)]
pub(super) fn carry(fd: c_int, life: u32, way: Way, flags: c_int) -> Carry {
    if flags & KERNEL_ONLY != 0 {
        crate::conn::handover::to_kernel(fd, Reason::Call);
        return again(fd, way, flags);
    }
    if young::count_call(fd) && opening::may_grow(fd) {
        opening::grow_up(fd);
        return again(fd, way, flags);
    }
    match young::enter(fd, life, way) {
        Entered::Young(call) => Carry::Verdict(Verdict::Young(call.with_flags(flags))),
        Entered::Grown(number) => grown(fd, number, way, flags),
        // Another life may be young, too.
        Entered::Gone if table::get(fd) != Slot::Young(life) => super::carry(fd, way, flags),
        Entered::Gone | Entered::Full => again(fd, way, flags),
    }
}

/// It has a record, which the table does not name yet: its gates are open until it does.
#[cold]
fn grown(fd: c_int, number: u32, way: Way, flags: c_int) -> Carry {
    let record = process_group::own().map(|family| family.record(number));
    match record.and_then(|record| enter(record, way)) {
        Some(inflight) => {
            let peeks = flags & libc::MSG_PEEK != 0;
            Carry::Verdict(Verdict::Kernel(inflight.peeking(peeks)))
        }
        None => again(fd, way, flags),
    }
}

/// It is young no more: what it is now.
#[cold]
fn again(fd: c_int, way: Way, flags: c_int) -> Carry {
    match (table::get(fd), process_group::own()) {
        (Slot::Record(number), Some(family)) => carry_record(family, number, fd, way, flags),
        // More calls than can be counted: what it moves is missing in the comparison of both ends.
        _ => Carry::Verdict(Verdict::Bypass),
    }
}
