//! `select` by way of `poll`, for sets that hold one of our connections.

use std::os::fd::RawFd;

use libc::{
    POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, c_int, c_short, fd_set, pollfd, sigset_t,
    timespec,
};
use smallvec::SmallVec;

use crate::ready::poll::newcomers::{are_any, grow_up, may_wait};
use crate::ready::poll::{FEW, PollLimit, is_ours, note_uring, poll_ours};
use crate::state::table::{self, Slot};
use crate::state::urings;
use crate::state::verdict::Verdict;
use crate::state::young;
use os::access;
use os::poll::poll_now;

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
    // Without a connection nothing is ours to look at.
    if !(0..=1 << 20).contains(&nfds) || !are_any() {
        return Verdict::Bypass;
    }
    let Some(mut sets) = read_all([read, write, except], nfds) else {
        return Verdict::Bypass;
    };
    let is_asked = |fd: &RawFd| sets.iter().any(|set| set.has(*fd));
    if urings::any_is_served() {
        (0..nfds).filter(is_asked).for_each(note_uring);
    }
    // SAFETY: any bytes are a time.
    let time = unsafe { access::load_if_any(timeout) };
    if young::are_used() && may_wait(time) {
        (0..nfds).filter(is_asked).for_each(grow_up);
    }
    if !(0..nfds).any(|fd| is_asked(&fd) && is_ours(fd)) {
        return Verdict::Bypass;
    }
    let limit = time.and_then(|time| PollLimit::new(time.as_ref()));
    let Some(limit) = limit.filter(|_| access::is_mask(mask)) else {
        return Verdict::Bypass;
    };
    let mut fds: SmallVec<[pollfd; FEW]> = (0..nfds).filter_map(|fd| asked(&sets, fd)).collect();
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
        Some(Ok(_)) => {
            let count = answer(&mut sets, &fds);
            match sets.iter().all(Bits::write) {
                true => Verdict::Done(count),
                false => Verdict::Fail(libc::EFAULT),
            }
        }
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
    if nfds <= table::FD_SET_SIZE || !crate::runtime::process::is_on() {
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

/// A set of any length, as programs with more than 1024 fds use it: where it is, and what is in it.
struct Bits {
    at: *mut fd_set,
    words: SmallVec<[u64; 16]>,
}

/// `None` if one is bad.
fn read_all([read, write, except]: [*mut fd_set; 3], nfds: c_int) -> Option<[Bits; 3]> {
    let all = [Bits::read(read, nfds)?, Bits::read(write, nfds)?];
    let [read, write] = all;
    Some([read, write, Bits::read(except, nfds)?])
}

impl Bits {
    /// As the kernel, in whole words.
    fn read(at: *mut fd_set, nfds: c_int) -> Option<Bits> {
        let words = SmallVec::from_elem(0, (nfds as usize).div_ceil(64));
        let mut bits = Bits { at, words };
        let len = bits.words.len() * size_of::<u64>();
        // SAFETY: the words are ours, and have that length.
        let read = at.is_null()
            || access::is_readable(at, len)
                && unsafe { access::copy(bits.words.as_mut_ptr().cast(), at.cast(), len) };
        read.then_some(bits)
    }

    /// Gives it back to the program.
    fn write(&self) -> bool {
        let len = self.words.len() * size_of::<u64>();
        // SAFETY: the words are ours, and have that length.
        self.at.is_null()
            || unsafe { access::copy(self.at.cast(), self.words.as_ptr().cast(), len) }
    }

    fn has(&self, fd: RawFd) -> bool {
        self.words[fd as usize / 64] >> (fd % 64) & 1 != 0
    }
}

fn asked(sets: &[Bits; 3], fd: RawFd) -> Option<pollfd> {
    let [read, write, except] = sets.each_ref().map(|set| set.has(fd));
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

fn answer(sets: &mut [Bits; 3], fds: &[pollfd]) -> isize {
    let mut count = 0;
    sets.iter_mut().for_each(|set| set.words.fill(0));
    for entry in fds {
        let kinds = [(POLLIN, READ), (POLLOUT, WRITE), (POLLPRI, EXCEPT)];
        for (set, (asked, bits)) in sets.iter_mut().zip(kinds) {
            if entry.events & asked != 0 && entry.revents & bits != 0 {
                set.words[entry.fd as usize / 64] |= 1 << (entry.fd % 64);
                count += 1;
            }
        }
    }
    count
}
