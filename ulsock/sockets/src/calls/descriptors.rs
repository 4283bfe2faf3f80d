//! The life of numbers: duplicates and closing.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use libc::c_int;
use rustix::io::fcntl_getfd;

use crate::calls::passing;
use crate::calls::uring;
use crate::conn::handover::to_kernel;
use crate::conn::{self, Handle};
use crate::runtime::process;
use crate::runtime::thread;
use crate::state::duplicates;
use crate::state::kernel_only;
use crate::state::record::{State, flag};
use crate::state::table::{self, Slot};
use crate::state::urings;
use crate::state::verdict::Verdict;
use crate::state::young;
use os::raw;
use rendezvous::reason::Reason;
use shm::order;

/// After any other call that returned a new fd. The number may have been ours and closed in a way
/// that we did not see (fclose inside libc).
#[inline]
pub fn fd_opened(fd: RawFd) {
    table::note_highest(fd);
    if table::get(fd) != Slot::Foreign {
        let_number_go(fd);
    }
}

/// Before `close`.
#[inline]
pub fn close(fd: RawFd) -> Verdict {
    match table::get(fd) {
        Slot::Foreign => {}
        Slot::Internal => return Verdict::Fail(libc::EBADF),
        Slot::Young(_) => release(fd, true),
        _ => forget(fd),
    }
    Verdict::Bypass
}

/// The number stops meaning what it meant.
#[cold]
fn forget(fd: RawFd) {
    if let (Slot::Record(number), Some(family)) =
        (table::get(fd), crate::state::process_group::own())
        && family.record(number).state() == State::Managed
    {
        crate::ready::epoll::number_closes(fd, number);
        conn::release::last_words(family, fd, number);
    }
    release(fd, true);
}

/// What the number meant is gone in the kernel too: its last words must not go to what is there now.
pub fn let_number_go(fd: RawFd) {
    release(fd, false);
}

fn release(fd: RawFd, still_open: bool) {
    match table::replace(fd, Slot::Foreign) {
        Some(Slot::Record(number)) => {
            duplicates::remove(fd);
            order::spoke_by_kernel();
            if let Some(family) = crate::state::process_group::own() {
                passing::number_closes(family.record(number), fd);
            }
            if let Some(family) = crate::state::process_group::own().filter(|_| still_open) {
                conn::watch::keep_open(family, number, fd);
                let record = family.record(number);
                if kernel_only::is_left(record) && family.refs(number).load(Ordering::Relaxed) == 1
                {
                    kernel_only::count(record, fd);
                }
            }
            crate::ready::epoll::number_closes(fd, number);
            drop_reference(fd, number, still_open);
        }
        Some(Slot::Epoll(set)) => crate::ready::epoll::closed(set),
        Some(Slot::Uring(number)) => uring::closed(number),
        Some(Slot::Young(_)) => young::closed(fd),
        _ => {}
    }
}

fn drop_reference(fd: RawFd, number: u32, still_open: bool) {
    let Some(family) = crate::state::process_group::own() else {
        return;
    };
    if thread::add(family.refs(number), u32::MAX) > 1 {
        if family.fd_word(number).load(Ordering::Relaxed) == fd as u32 + 1 {
            let other = table::all().find(|(_, slot)| *slot == Slot::Record(number));
            family
                .fd_word(number)
                .store(other.map_or(0, |(fd, _)| fd as u32 + 1), Ordering::Relaxed);
        }
        return conn::kept::rouse(family, number);
    }
    if still_open && conn::kept::stand_by(family, number, fd) {
        return conn::kept::rouse(family, number);
    }
    conn::release::let_go(family, number);
}

/// Before `dup2`/`dup3`.
pub fn dup_over(old: RawFd, new: RawFd, flags: c_int) -> Verdict {
    if table::get(old) == Slot::Internal {
        return Verdict::Fail(libc::EBADF);
    }
    if old != new && new >= 0 {
        match table::get(new) {
            Slot::Foreign => {}
            // The program wants a number that we took: ours moves away.
            Slot::Internal => return Verdict::Fail(libc::EBUSY),
            // It keeps its meaning.
            slot @ Slot::Record(_) if slot == table::get(old) => {}
            // What the call leaves as it is must not be forgotten.
            _ if !will_replace(old, new, flags) => {}
            _ => forget(new),
        }
    }
    Verdict::Bypass
}

/// As the kernel checks it (fs/file.c).
fn will_replace(old: RawFd, new: RawFd, flags: c_int) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // SAFETY: only asks whether the number is open; a borrowed one must not be -1.
    let is_open = old >= 0 && fcntl_getfd(unsafe { BorrowedFd::borrow_raw(old) }).is_ok();
    is_open && flags & !libc::O_CLOEXEC == 0 && limit.is_none_or(|limit| (new as u64) < limit)
}

/// After any successful dup.
pub fn duped(old: RawFd, new: RawFd) {
    let mut slot = table::get(old);
    // The number means what it meant, also in the epoll sets that it is in.
    let same = matches!(slot, Slot::Record(_)) && slot == table::get(new);
    if old == new || same {
        return;
    }
    fd_opened(new);
    if matches!(slot, Slot::Fresh | Slot::Young(_)) {
        // Either number may be used when it is a connection, or is.
        slot = crate::state::give_record::give_record(old).map_or(Slot::Foreign, Slot::Record);
    }
    match slot {
        Slot::Record(number) => {
            if let Some(family) = crate::state::process_group::own() {
                family.refs(number).fetch_add(1, Ordering::SeqCst);
                crate::ready::epoll::no_longer_single(Handle::new(family, number, old));
                table::set(new, slot);
                duplicates::add(new);
                crate::ready::epoll::number_comes(new, number);
                // stdio reads and writes 0 to 2 inside libc, past our hooks.
                if new <= 2 {
                    crate::conn::handover::to_kernel(new, Reason::Stdio);
                }
            }
        }
        Slot::Listener => drop(table::set(new, slot)),
        Slot::Epoll(set) => {
            crate::ready::epoll::duped(set);
            table::set(new, slot);
        }
        Slot::Uring(uring) => {
            urings::duped(uring);
            table::set(new, slot);
        }
        Slot::Foreign | Slot::Fresh | Slot::Young(_) | Slot::Internal => {}
    }
}

pub fn shutdown(fd: RawFd, how: c_int) -> Verdict {
    match table::get(fd) {
        Slot::Internal => return Verdict::Fail(libc::EBADF),
        Slot::Record(_) => {}
        // It does not show later what was shut down.
        Slot::Young(_) => {
            to_kernel(fd, Reason::PeerGone);
            return Verdict::Bypass;
        }
        _ => return Verdict::Bypass,
    }
    order::spoke_by_kernel();
    let Some(handle) = crate::conn::managed(fd) else {
        leave_half_closed(fd);
        return Verdict::Bypass;
    };
    match conn::close::shutdown(handle, how) {
        Some(Ok(())) => Verdict::Done(0),
        Some(Err(error)) => Verdict::Fail(error.raw_os_error()),
        None => Verdict::Bypass,
    }
}

/// A Unix connection does not show later what was shut down: it stays where it is.
fn leave_half_closed(fd: RawFd) {
    if let Some((_, _, record)) = crate::state::process_group::record_of(fd)
        && record.is_unix()
    {
        record.set(flag::PINNED);
        record.set_reason(Reason::PeerGone);
    }
}

/// `close_range` and `closefrom`: everything in the range but our own fds.
pub fn close_range(first: u32, last: u32, flags: c_int) -> Verdict {
    // Anything but this flag closes nothing, or is refused.
    const CLOSE_RANGE_UNSHARE: c_int = 2;
    if !process::is_on() || flags & !CLOSE_RANGE_UNSHARE != 0 || first > last {
        return Verdict::Bypass;
    }
    let inside = |fd: RawFd| (first..=last).contains(&(fd as u32));
    let mut ours = Vec::new();
    for (fd, slot) in table::all().filter(|(fd, _)| inside(*fd)) {
        match slot {
            Slot::Internal => ours.push(fd as u32),
            _ => forget(fd),
        }
    }
    let mut begin = first;
    for fd in ours {
        if fd > begin {
            raw_close_range(begin, fd - 1, flags);
        }
        begin = fd + 1;
    }
    if begin <= last {
        raw_close_range(begin, last, flags);
    }
    Verdict::Done(0)
}

fn raw_close_range(first: u32, last: u32, flags: c_int) {
    // SAFETY: takes no pointers; the program asked for these numbers to be closed.
    let _ = unsafe {
        let args = [first as usize, last as usize, flags as usize];
        raw::syscall(libc::SYS_close_range, args)
    };
}
