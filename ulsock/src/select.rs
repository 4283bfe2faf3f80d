//! `select` by way of `poll`, for sets that hold one of our connections.

use std::os::fd::RawFd;

use libc::{
    c_int, c_short, fd_set, pollfd, sigset_t, timespec, POLLERR, POLLHUP, POLLIN, POLLNVAL,
    POLLOUT, POLLPRI,
};
use smallvec::SmallVec;

use crate::api::Verdict;
use crate::conn::wait::poll_now;
use crate::pointer::is_bad;
use crate::poll::{is_ours, poll_ours, Limit, FEW};
use crate::table::{self, Slot};

const READ: c_short = POLLIN | POLLHUP | POLLERR | POLLNVAL;
const WRITE: c_short = POLLOUT | POLLERR | POLLNVAL;
const EXCEPT: c_short = POLLPRI | POLLNVAL;

/// # Safety
/// As libc's `pselect`.
pub unsafe fn select(
    nfds: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Verdict {
    if !(0..=1 << 20).contains(&nfds) {
        return Verdict::Bypass;
    }
    let sets = [read, write, except].map(|set| Bits { words: set.cast() });
    let bytes = nfds as usize / 64 * 8 + 8;
    if sets
        .iter()
        .any(|set| !set.words.is_null() && is_bad(set.words, bytes))
    {
        return Verdict::Bypass;
    }
    // SAFETY: each set has bits for all numbers below `nfds`, by contract.
    let any = (0..nfds).any(|fd| unsafe { sets.iter().any(|set| set.has(fd)) } && is_ours(fd));
    if !any {
        return Verdict::Bypass;
    }
    // SAFETY: null or valid by contract.
    let Some(limit) = Limit::new(unsafe { timeout.as_ref() }) else {
        return Verdict::Bypass;
    };
    // SAFETY: as above.
    let mut fds: SmallVec<[pollfd; FEW]> = (0..nfds)
        .filter_map(|fd| unsafe { asked(&sets, fd) })
        .collect();
    // As the kernel: a number that is closed later, while it sleeps, is ready.
    if !limit.impatient && any_closed(&fds) {
        return Verdict::Fail(libc::EBADF);
    }
    let mut result = poll_ours(&mut fds, limit, mask);
    while matches!(result, Some(Ok(_))) && !limit.impatient && drop_hung_up(&mut fds) {
        result = poll_ours(&mut fds, limit, mask);
    }
    match result {
        Some(Ok(_)) if limit.impatient && fds.iter().any(is_closed) => Verdict::Fail(libc::EBADF),
        // SAFETY: as above.
        Some(Ok(_)) => Verdict::Done(unsafe { answer(&sets, nfds, &fds) }),
        Some(Err(error)) => Verdict::Fail(error.raw_os_error()),
        None => Verdict::Bypass,
    }
}

fn is_closed(entry: &pollfd) -> bool {
    entry.revents & POLLNVAL != 0
}

/// Is any of these not open? Connections of ours are.
fn any_closed(fds: &[pollfd]) -> bool {
    let unknown = fds
        .iter()
        .filter(|entry| !matches!(table::get(entry.fd), Slot::Record(_) | Slot::Epoll(_)));
    let mut unknown: SmallVec<[pollfd; FEW]> = unknown
        .map(|entry| pollfd {
            events: 0,
            ..*entry
        })
        .collect();
    if unknown.is_empty() {
        return false;
    }
    let internal = |entry: &pollfd| table::get(entry.fd) == Slot::Internal;
    if unknown.iter().any(internal) {
        return true;
    }
    let _ = poll_now(&mut unknown);
    unknown.iter().any(is_closed)
}

/// How many numbers `select` shall look at. The kernel looks at no more than its table of numbers has,
/// and programs rely on that: they ask for as many as they may have, with sets that are shorter. But
/// our own numbers have made the table longer.
#[inline]
pub fn select_limit(nfds: c_int) -> c_int {
    if nfds <= table::FD_SET_SIZE || !crate::process::is_on() {
        return nfds;
    }
    // As in the kernel, in whole words.
    nfds.min((table::end_of_programs() + 63) & !63)
}

/// Unlike poll, select does not tell those who wait for exceptions alone about a hang-up: if there is
/// nothing else to tell, they are waited for no more (`true`: wait on), for nothing comes after it.
fn drop_hung_up(fds: &mut [pollfd]) -> bool {
    let hung_up = |entry: &pollfd| {
        entry.events == POLLPRI && entry.revents != 0 && entry.revents & !(POLLHUP | POLLERR) == 0
    };
    let nothing_else = fds.iter().all(|entry| entry.revents == 0 || hung_up(entry));
    let mut dropped = false;
    for entry in fds
        .iter_mut()
        .filter(|entry| nothing_else && hung_up(entry))
    {
        entry.fd = -1;
        dropped = true;
    }
    dropped
}

/// A set of any length, as programs with more than 1024 fds use it.
#[derive(Clone, Copy)]
struct Bits {
    words: *mut u64,
}

impl Bits {
    /// # Safety
    /// Null, or with bits up to `fd`.
    unsafe fn has(&self, fd: RawFd) -> bool {
        // SAFETY: by contract.
        !self.words.is_null() && unsafe { *self.words.add(fd as usize / 64) } >> (fd % 64) & 1 != 0
    }

    /// # Safety
    /// As for `has`.
    unsafe fn put(&self, fd: RawFd, on: bool) {
        if !self.words.is_null() {
            // SAFETY: by contract.
            let word = unsafe { &mut *self.words.add(fd as usize / 64) };
            *word = *word & !(1 << (fd % 64)) | u64::from(on) << (fd % 64);
        }
    }
}

/// # Safety
/// The sets have bits up to `fd`.
unsafe fn asked(sets: &[Bits; 3], fd: RawFd) -> Option<pollfd> {
    // SAFETY: by contract.
    let [read, write, except] = sets.map(|set| unsafe { set.has(fd) });
    let mut events = 0;
    for (on, bit) in [(read, POLLIN), (write, POLLOUT), (except, POLLPRI)] {
        if on {
            events |= bit;
        }
    }
    (events != 0).then_some(pollfd {
        fd,
        events,
        revents: 0,
    })
}

/// # Safety
/// The sets have bits below `nfds`.
unsafe fn answer(sets: &[Bits; 3], nfds: c_int, fds: &[pollfd]) -> isize {
    let mut count = 0;
    for fd in 0..nfds {
        // SAFETY: by contract.
        sets.iter().for_each(|set| unsafe { set.put(fd, false) });
    }
    for entry in fds {
        for (set, asked, bits) in [
            (&sets[0], POLLIN, READ),
            (&sets[1], POLLOUT, WRITE),
            (&sets[2], POLLPRI, EXCEPT),
        ] {
            if entry.events & asked != 0 && entry.revents & bits != 0 {
                // SAFETY: by contract.
                unsafe { set.put(entry.fd, true) };
                count += 1;
            }
        }
    }
    count
}
