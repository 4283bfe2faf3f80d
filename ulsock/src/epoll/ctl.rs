//! `epoll_ctl`: the kernel has the first word, then we remember what the program registered.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event, EPOLLEXCLUSIVE, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD};
use rustix::io::Errno;

use super::kernel::raw_ctl;
use super::member::Member;
use super::set::{Set, State};
use crate::api::Verdict;
use crate::conn::Handle;
use crate::options;
use crate::process;
use crate::reason::Reason;
use crate::record::flag;
use crate::table::{self, Slot};

/// # Safety
/// As libc's `epoll_ctl`.
pub unsafe fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> Verdict {
    let (slot, target) = (table::get(epfd), table::get(fd));
    if slot == Slot::Internal || target == Slot::Internal {
        return Verdict::Fail(libc::EBADF);
    }
    match (slot, target) {
        (Slot::Epoll(set), Slot::Record(number)) => {
            let (Some(set), Some(family)) = (super::get(set), process::family()) else {
                return Verdict::Bypass;
            };
            // DEL takes any pointer.
            let event = if op == EPOLL_CTL_DEL {
                std::ptr::null_mut()
            } else {
                event
            };
            // SAFETY: null, or valid by contract.
            let event = unsafe { event.as_ref() };
            family.record(number).set(flag::IN_EPOLL);
            let result = control(
                set,
                epfd,
                op,
                Handle::new(family, number, fd),
                event.copied(),
            );
            result.map_or_else(
                |error| Verdict::Fail(error.raw_os_error()),
                |()| Verdict::Done(0),
            )
        }
        // A set that we do not know (inherited over exec): its members stay with the kernel.
        (Slot::Foreign, Slot::Record(_)) if op != EPOLL_CTL_DEL => {
            options::to_kernel(fd, Reason::Waiters);
            Verdict::Bypass
        }
        // A set within a set: only the kernel sees through that.
        (_, Slot::Epoll(inner)) => {
            super::only_by_kernel(inner, fd);
            Verdict::Bypass
        }
        _ => Verdict::Bypass,
    }
}

fn control(
    set: &Set,
    epfd: RawFd,
    op: c_int,
    handle: Handle,
    event: Option<epoll_event>,
) -> Result<(), Errno> {
    let mut held = set.hold().ok_or(Errno::DEADLK)?;
    let awake = set.sleepers.load(Ordering::Relaxed) == 0;
    let state = held.state();
    let fd = handle.fd;
    match (op, event) {
        (EPOLL_CTL_ADD, Some(event)) => {
            raw_ctl(epfd, op, fd, event)?;
            state.add(fd, handle, epfd, event, awake);
        }
        (EPOLL_CTL_MOD, Some(event)) => modify(set, state, epfd, fd, event)?,
        (EPOLL_CTL_DEL, _) => {
            state.remove(fd);
            raw_ctl(epfd, op, fd, epoll_event { events: 0, u64: 0 })?;
        }
        _ => {
            return Err(if event.is_none() {
                Errno::FAULT
            } else {
                Errno::INVAL
            })
        }
    }
    Ok(())
}

fn modify(
    set: &Set,
    state: &mut State,
    epfd: RawFd,
    fd: RawFd,
    event: epoll_event,
) -> Result<(), Errno> {
    // A connection that is on the kernel for good is the kernel's to watch. (A forked child that
    // uses the set returns its members there, and their registrations with them.)
    if let Some(reason) = state.members.get(&fd).and_then(pinned) {
        state.give_up(fd, reason);
    }
    match state.members.get_mut(&fd) {
        Some(member) if member.converted => {
            if (member.events | event.events) & EPOLLEXCLUSIVE as u32 != 0 {
                return Err(Errno::INVAL);
            }
            member.events = event.events;
            member.data = event.u64;
            member.disabled = false;
            member.told = 0;
            state.arm(fd);
            state.enqueue(fd);
            set.wake(state);
        }
        known => {
            raw_ctl(epfd, EPOLL_CTL_MOD, fd, event)?;
            if let Some(member) = known {
                member.events = event.events;
                member.data = event.u64;
            }
        }
    }
    Ok(())
}

/// Why the connection of a converted member is on the kernel for good, if it is.
fn pinned(member: &Member) -> Option<Reason> {
    let record = process::family()?.record(member.handle.number);
    (member.converted && record.has(flag::PINNED)).then(|| record.reason())
}
