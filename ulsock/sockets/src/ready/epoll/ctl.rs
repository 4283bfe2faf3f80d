//! `epoll_ctl`: the kernel has the first word, then we remember what the program registered.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLONESHOT, c_int, epoll_event};
use rustix::io::Errno;

use super::member::Member;
use super::notes;
use super::set::Set;
use super::state::SetState;
use super::tag::Aliases;
use crate::runtime::handle::Handle;
use crate::runtime::upcalls;
use crate::state::record::{Record, flag};
use crate::state::table::{self, Slot, Word};
use crate::state::verdict::Verdict;
use os::access;
use os::epoll as kernel;
use os::faults;
use os::raw;
use rendezvous::reason::Reason;

/// What the program asks for, but for the event.
#[derive(Clone, Copy)]
struct CtlCall {
    epfd: RawFd,
    op: c_int,
    fd: RawFd,
}

/// # Safety
/// As libc's `epoll_ctl`.
#[inline]
pub unsafe fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> Verdict {
    if stays_on_kernel(fd) && !looks_like_ours(op, event) {
        if op == EPOLL_CTL_ADD {
            note_awake(epfd, fd);
        }
        return crate::state::verdict::guard(epfd);
    }
    follow(CtlCall { epfd, op, fd }, event)
}

/// Not inlined: a call that we need not know of must not pay for its frame.
#[inline(never)]
fn follow(call: CtlCall, event: *const epoll_event) -> Verdict {
    let (slot, mut target) = (table::get(call.epfd), table::get(call.fd));
    if call.op == EPOLL_CTL_ADD && matches!(target, Slot::Fresh | Slot::Young(_)) {
        // It may be a connection when its events come.
        target =
            crate::state::give_record::give_record(call.fd).map_or(Slot::Foreign, Slot::Record);
    }
    if matches!(slot, Slot::Internal) || matches!(target, Slot::Internal) {
        return Verdict::Fail(libc::EBADF);
    }
    if matches!(target, Slot::Uring(_)) {
        (upcalls::get().uring_is_watched)(call.fd);
    }
    // DEL takes any pointer.
    if call.op == EPOLL_CTL_DEL {
        return followed(call, (slot, target), None);
    }
    if matches!(target, Slot::Foreign | Slot::Uring(_)) && !faults::are_caught() {
        return kernel_first(call, set_of(slot), event);
    }
    // SAFETY: any bytes are an event, and a bad place is found out.
    match unsafe { access::load(event) } {
        Some(event) => followed(call, (slot, target), Some(&event)),
        None => Verdict::Bypass,
    }
}

#[inline]
fn followed(call: CtlCall, between: (Slot, Slot), event: Option<&epoll_event>) -> Verdict {
    match between {
        (Slot::Epoll(set), Slot::Record(number)) => connection(call, set, number, event),
        _ => no_connection(call, between, event),
    }
}

/// A program without connections: only the kernel can read the event and live. Afterwards it can be
/// read here, and data that looks like ours is put right.
fn kernel_first(call: CtlCall, set: Option<&Set>, event: *const epoll_event) -> Verdict {
    let Some(set) = set else {
        return Verdict::Bypass;
    };
    let [epfd, op, fd] = [call.epfd, call.op, call.fd].map(|number| number as usize);
    let args = [epfd, op, fd, event as usize];
    // SAFETY: the kernel checks all four.
    if let Err(error) = unsafe { raw::syscall(libc::SYS_epoll_ctl, args) } {
        return Verdict::Fail(error.raw_os_error());
    }
    // SAFETY: the kernel has just read it.
    let event = unsafe { event.read() };
    if Aliases::needed(event.u64) {
        let op = EPOLL_CTL_MOD;
        return other(CtlCall { op, ..call }, Some(set), Some(&event));
    }
    Verdict::Done(0)
}

/// A connection whose membership is the kernel's business for good, and of which we have kept nothing.
#[inline]
fn stays_on_kernel(fd: RawFd) -> bool {
    let number = table::ours(fd).and_then(Word::record);
    let record = number.zip(crate::state::process_group::own());
    record.is_some_and(|(number, family)| {
        let record = family.record(number);
        record.stays_on_kernel() && !record.has(flag::IN_EPOLL) && !notes::has(fd)
    })
}

#[inline(never)]
fn note_awake(epfd: RawFd, fd: RawFd) {
    let set = set_of(table::get(epfd));
    let record = crate::state::process_group::record_of(fd);
    if let (Some(set), Some((_, _, record))) = (set, record) {
        set.note_awake(record);
    }
}

#[inline]
fn looks_like_ours(op: c_int, event: *const epoll_event) -> bool {
    // SAFETY: the place is only named, and a bad one is found out.
    let data = || unsafe { access::load_word(&raw const (*event).u64) };
    op != EPOLL_CTL_DEL && data().is_some_and(Aliases::needed)
}

/// Anything else, or a set that is none of ours.
#[inline(never)]
fn no_connection(
    call: CtlCall,
    (slot, target): (Slot, Slot),
    event: Option<&epoll_event>,
) -> Verdict {
    let set = set_of(slot);
    match target {
        Slot::Record(_) => return unknown_set(call, event),
        Slot::Epoll(inner) => nest(call, set, inner),
        _ => {}
    }
    other(call, set, event)
}

fn set_of(slot: Slot) -> Option<&'static Set> {
    match slot {
        Slot::Epoll(number) => super::get(number),
        _ => None,
    }
}

/// A TCP connection, by its record.
#[inline]
fn connection(call: CtlCall, set: u32, number: u32, event: Option<&epoll_event>) -> Verdict {
    let (Some(known), Some(family)) = (super::get(set), crate::state::process_group::own()) else {
        return Verdict::Bypass;
    };
    let handle = Handle::new(family, number, call.fd);
    known.note_awake(family.record(number));
    let noted = known.control_by_note(family, (set, handle), call.epfd, call.op, event);
    verdict(noted.unwrap_or_else(|| {
        notes::adopt(family, handle);
        family.record(number).set(flag::IN_EPOLL);
        control(call, known, handle, event)
    }))
}

/// A set that we do not know (inherited over exec): its members stay with the kernel. But first the
/// kernel says whether it is a set at all, and takes this member.
fn unknown_set(call: CtlCall, event: Option<&epoll_event>) -> Verdict {
    let CtlCall { epfd, op, fd } = call;
    let tried = match (op, event) {
        (EPOLL_CTL_ADD, Some(_)) => {
            kernel::add(epfd, fd, 0, 0).and_then(|()| kernel::delete(epfd, fd))
        }
        (EPOLL_CTL_MOD, Some(event)) => kernel::modify(epfd, fd, event.events, event.u64),
        _ => return Verdict::Bypass,
    };
    if let Err(error) = tried {
        return Verdict::Fail(error.raw_os_error());
    }
    crate::conn::handover::to_kernel(fd, Reason::Waiters);
    Verdict::Bypass
}

fn verdict(result: Result<(), Errno>) -> Verdict {
    match result {
        Ok(()) => Verdict::Done(0),
        Err(error) => Verdict::Fail(error.raw_os_error()),
    }
}

/// A member that is the kernel's business, unless its data looks like ours.
fn other(call: CtlCall, set: Option<&Set>, event: Option<&epoll_event>) -> Verdict {
    let CtlCall { epfd, op, fd } = call;
    let (Some(set), Some(event)) = (set, event) else {
        return Verdict::Bypass;
    };
    let (events, data) = (event.events, event.u64);
    if !Aliases::needed(data) {
        return Verdict::Bypass;
    }
    let Some(mut held) = set.hold() else {
        return Verdict::Bypass;
    };
    let data = held.state().aliases.register(data);
    match op {
        EPOLL_CTL_ADD => verdict(kernel::add(epfd, fd, events, data)),
        EPOLL_CTL_MOD => verdict(kernel::modify(epfd, fd, events, data)),
        _ => Verdict::Bypass,
    }
}

/// A set within a set.
fn nest(call: CtlCall, outer: Option<&Set>, inner: u32) {
    if let (Some(set), EPOLL_CTL_ADD) = (super::get(inner), call.op) {
        set.watch(call.fd);
        set.refresh();
    }
    if let Some(mut held) = outer.and_then(Set::hold) {
        let known = &mut held.state().inner;
        known.retain(|other| *other != inner);
        if call.op != EPOLL_CTL_DEL {
            known.push(inner);
        }
    }
}

#[inline(never)]
fn control(
    call: CtlCall,
    set: &Set,
    handle: Handle,
    event: Option<&epoll_event>,
) -> Result<(), Errno> {
    let CtlCall { epfd, op, fd } = call;
    let event = event.copied();
    let mut held = set.hold().ok_or(Errno::DEADLK)?;
    let state = held.state();
    match (op, event) {
        (EPOLL_CTL_ADD, Some(event)) => {
            set.follow_shots(state, &event);
            state.add(handle, epfd, event, set.all_are_up())?;
            set.wake(state);
            Ok(())
        }
        (EPOLL_CTL_MOD, Some(event)) => {
            set.follow_shots(state, &event);
            modify(set, state, (epfd, fd), event)
        }
        (EPOLL_CTL_DEL, _) => state.leave(epfd, fd),
        (_, Some(_)) => Err(Errno::INVAL),
        (_, None) => Err(Errno::FAULT),
    }
}

impl Set {
    /// This connection becomes a member.
    #[inline]
    fn note_awake(&self, record: &Record) {
        if record.has(flag::AWAKE) && !self.awake.load(Ordering::Relaxed) {
            self.awake.store(true, Ordering::Relaxed);
        }
    }

    /// The kernel may fire a shot as soon as it has the registration: no dozer must take it unseen.
    fn follow_shots(&self, state: &SetState, event: &epoll_event) {
        if event.events & EPOLLONESHOT as u32 != 0 {
            self.plain.cease(state);
        }
    }
}

fn modify(
    set: &Set,
    state: &mut SetState,
    (epfd, fd): (RawFd, RawFd),
    event: epoll_event,
) -> Result<(), Errno> {
    let (events, data) = (event.events, event.u64);
    let member = state.members.get_mut(&fd);
    if let Some(member) = member.filter(|member| member.converted.is_some()) {
        if member.parked {
            return Err(Errno::NOENT);
        }
        if Member::asks_exclusively(events) {
            return Err(Errno::INVAL);
        }
        member.change(events, data);
        state.confirm(fd);
        state.arm(fd);
        state.enqueue(fd);
        set.wake(state);
        return Ok(());
    }
    let own = state.aliases.register(data);
    kernel::modify(epfd, fd, events, own)?;
    state.changed(fd, events, data);
    Ok(())
}
