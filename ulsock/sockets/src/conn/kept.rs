//! A call that sleeps keeps its connection, as a kernel call keeps its file: if another thread closes the last number
//! meanwhile, the call goes on, and the connection ends when the last such call returns.
//!
//! The thread that closes the number leaves a duplicate of it, at a number of our own ([`stand_by`]); from then on the
//! calls use that one ([`Handle::here`]). In a process with one thread nothing is counted.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Conn, Handle};
use crate::runtime::kernel_calls::KernelCalls;
use crate::runtime::thread;
use crate::state::process_group::ProcessGroup;
use os::fds::InternalFd;
use os::fds::duplicate_high;
use shm::waiter;

/// In a count of callers: the program's numbers are closed, and the last caller closes the duplicate.
const STANDS_BY: u32 = 1 << 31;

/// Of one call. No guard: a cancelled thread drops nothing, but its flights are ended.
#[derive(Default)]
pub struct KeptConnection(Option<KeptCall>);

struct KeptCall {
    number: u32,
    /// The thread's list, and its place there.
    flight: Option<(&'static KernelCalls, usize)>,
}

impl KeptConnection {
    /// The call is about to sleep. Within its critical section.
    #[inline]
    pub fn note(&mut self, conn: &Conn<'_>) {
        if self.0.is_none() && !thread::is_single() {
            self.begin(conn);
        }
    }

    #[cold]
    fn begin(&mut self, conn: &Conn<'_>) {
        let Some(family) = crate::state::process_group::own() else {
            return;
        };
        let number = conn.handle.number;
        family.callers(number).fetch_add(1, Ordering::SeqCst);
        // Who closes a number takes it out of the table first, and then looks for callers.
        if !conn.handle.is_open() {
            return left(number);
        }
        let flights = &conn.me.bed().flights;
        let flight = flights.begin_call(number).map(|place| (flights, place));
        self.0 = Some(KeptCall { number, flight });
    }

    /// The call is done. Outside of critical sections.
    #[inline]
    pub fn end(self) {
        if let Some(call) = self.0 {
            if let Some((flights, place)) = call.flight {
                flights.came_back(place);
            }
            left(call.number);
        }
    }
}

/// An operation of an io_uring keeps its connection as a call does, until [`left`].
pub fn keep(handle: Handle) {
    if let Some(family) = crate::state::process_group::own() {
        let callers = family.callers(handle.number);
        callers.fetch_add(1, Ordering::SeqCst);
    }
}

/// A caller has left, by returning or by a jump.
pub fn left(number: u32) {
    let Some(family) = crate::state::process_group::own() else {
        return;
    };
    let callers = family.callers(number);
    let last = callers.fetch_sub(1, Ordering::SeqCst) == STANDS_BY | 1;
    // A call that came too late may be the last, too.
    if last
        && callers
            .compare_exchange(STANDS_BY, 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    {
        end(family, number);
    }
}

/// Are there calls that keep the connection?
pub fn has_callers(family: &ProcessGroup, number: u32) -> bool {
    family.callers(number).load(Ordering::SeqCst) > 0
}

/// The last number is about to be closed in the kernel, and the table has lost it. `false`: nobody keeps the
/// connection.
pub fn stand_by(family: &'static ProcessGroup, number: u32, fd: i32) -> bool {
    let callers = family.callers(number);
    if callers.load(Ordering::SeqCst) == 0 {
        return false;
    }
    // SAFETY: the caller is about to close it.
    let Ok(own) = duplicate_high(unsafe { BorrowedFd::borrow_raw(fd) }) else {
        return false;
    };
    let word = family.fd_word(number);
    word.store(own.as_raw_fd() as u32 + 1, Ordering::SeqCst);
    family.refs(number).store(1, Ordering::SeqCst);
    if set_if_used(callers) {
        own.leave_open();
        return true;
    }
    // They have all returned just now.
    super::release::last_words(family, fd, number);
    family.refs(number).store(0, Ordering::SeqCst);
    word.store(0, Ordering::SeqCst);
    false
}

/// A number of a connection closes that has another, or the duplicate, from now on: calls that sleep by the closed
/// number go on by the other one, for the kernel's poll looks at what the number means when it wakes.
pub fn rouse(family: &'static ProcessGroup, number: u32) {
    let handle =
        crate::state::process_group::fd_of(number).map(|fd| Handle::new(family, number, fd));
    if let Some(conn) = handle
        .filter(|_| has_callers(family, number))
        .and_then(Conn::enter)
    {
        waiter::ring_threads(&conn.link.tx_shared().room.space);
        waiter::ring_threads(&conn.link.rx_shared().wait.data);
    }
}

fn set_if_used(callers: &AtomicU32) -> bool {
    let order = Ordering::SeqCst;
    callers
        .fetch_update(order, order, |now| (now > 0).then_some(now | STANDS_BY))
        .is_ok()
}

/// Closes the duplicate, as the program's number would have been.
#[cold]
fn end(family: &'static ProcessGroup, number: u32) {
    let Some(fd) = crate::state::process_group::fd_of(number) else {
        return;
    };
    super::release::last_words(family, fd, number);
    family.refs(number).store(0, Ordering::SeqCst);
    super::release::let_go(family, number);
    // SAFETY: `stand_by` has left it open, and only who takes STANDS_BY away comes here.
    drop(unsafe { InternalFd::left_open(fd) });
}

/// In a forked child: its parent's calls are not its own, nor what they keep.
pub fn forget(family: &'static ProcessGroup) {
    for number in family.used() {
        let callers = family.callers(number);
        if callers.load(Ordering::Relaxed) == 0 {
            continue;
        }
        if callers.swap(0, Ordering::Relaxed) & STANDS_BY != 0 {
            end(family, number);
        }
    }
}

impl Handle {
    /// The same connection at a number that still means it, if another thread has closed this one meanwhile.
    pub fn here(self) -> Handle {
        if self.is_open() || self.record_now().is_none() {
            return self;
        }
        crate::state::process_group::fd_of(self.number).map_or(self, |fd| self.at(fd))
    }
}
