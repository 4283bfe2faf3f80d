//! The memory that a wait names: its time, and the room for its answer, which may be bad.

use libc::{c_int, epoll_event, pollfd, sigset_t, timespec};

use crate::ready::poll::poll;
use crate::state::table;
use crate::state::verdict::Verdict;
use os::access;
use os::faults;
use os::pointer::Fault;

/// One answer of ours takes no more room than this, in bytes: each page of it is tried out before.
const ROOM: usize = 16 << 10;

/// The time of a wait in one of our sets. `None`: it cannot be read, or is none of our business.
///
/// # Safety
/// As libc's `epoll_pwait2`.
pub unsafe fn time_of_wait(epfd: c_int, timeout: *const timespec) -> Option<Option<timespec>> {
    table::ours(epfd)?;
    // SAFETY: any bytes are a time.
    unsafe { access::load_if_any(timeout) }
}

/// How many events can be written, up to `max` and to what is ever told at once.
pub(super) fn room(events: *mut epoll_event, max: usize) -> usize {
    // Without a connection all is written by the kernel.
    if !faults::are_caught() {
        return max;
    }
    let most = max.min(ROOM / size_of::<epoll_event>());
    access::writable(events, most * size_of::<epoll_event>()) / size_of::<epoll_event>()
}

/// There is nowhere to tell: EFAULT, as soon as there is something.
#[cold]
pub(super) fn without_room(
    epfd: c_int,
    fault: Fault,
    timeout: Option<&timespec>,
    mask: *const sigset_t,
) -> Verdict {
    if fault == Fault::Refused {
        return Verdict::Fail(libc::EFAULT);
    }
    let mut set = pollfd {
        fd: epfd,
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = timeout.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: an entry and a time of our own.
    match unsafe { poll(&mut set, 1, timeout, mask) } {
        Verdict::Done(1..) => Verdict::Fail(libc::EFAULT),
        other => other,
    }
}
