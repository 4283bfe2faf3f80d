//! Plain connections in epoll sets: what the program registered, in as few words as can be, for short
//! connections never need more. When one is to become ours, or anything unusual happens to it, its
//! note is adopted: it becomes a [`Member`].
//!
//! There is one note per number, for a connection that has this number alone and is in one set. It
//! is written and adopted under that set's lock; closing the number wipes it without.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLEXCLUSIVE, EPOLLONESHOT, c_int, epoll_event,
};
use rustix::io::Errno;

use super::member::Member;
use super::set::Set;
use super::tag::Aliases;
use crate::runtime::handle::Handle;
use crate::runtime::thread;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{State, flag};
use os::epoll as kernel;

/// Numbers beyond become members at once.
const MOST_NOTES: usize = 64 << 10;

struct Note {
    /// Which use of which set, as [`name`]; zero: none.
    set: AtomicU64,
    events: AtomicU32,
    epfd: AtomicI32,
    data: AtomicU64,
}

os::process_wide! {
    static NOTES: [Note; MOST_NOTES] = [const { Note::new() }; MOST_NOTES];
}

/// Sets are used again: one use of one set.
fn name(set: u32, uses: u32) -> u64 {
    u64::from(uses) << 32 | u64::from(set + 1)
}

fn is_current(name: u64) -> bool {
    let set = super::get((name as u32).wrapping_sub(1));
    set.is_some_and(|set| set.uses.load(Ordering::Acquire) == (name >> 32) as u32)
}

impl Note {
    const fn new() -> Note {
        Note {
            set: AtomicU64::new(0),
            events: AtomicU32::new(0),
            epfd: AtomicI32::new(0),
            data: AtomicU64::new(0),
        }
    }

    #[inline]
    fn of(fd: RawFd) -> Option<&'static Note> {
        NOTES.get(fd as u32 as usize)
    }

    #[inline]
    fn is_in(&self, name: u64) -> bool {
        self.set.load(Ordering::Relaxed) == name
    }

    /// Free, or left over from a set that is closed.
    #[inline]
    fn claim(&self, name: u64) -> bool {
        let known = self.set.load(Ordering::Relaxed);
        (known == 0 || !is_current(known)) && self.replace(known, name)
    }

    #[inline]
    fn wipe(&self, name: u64) -> bool {
        self.replace(name, 0)
    }

    #[inline]
    fn replace(&self, old: u64, new: u64) -> bool {
        if thread::is_single() && self.is_in(old) {
            self.set.store(new, Ordering::Relaxed);
            return true;
        }
        self.set
            .compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    fn write(&self, epfd: RawFd, event: &epoll_event) {
        self.epfd.store(epfd, Ordering::Relaxed);
        self.events.store(event.events, Ordering::Relaxed);
        self.data.store(event.u64, Ordering::Relaxed);
    }

    fn member(&self, handle: Handle) -> Member {
        let (epfd, events) = (&self.epfd, &self.events);
        Member::new(
            handle,
            epfd.load(Ordering::Relaxed),
            events.load(Ordering::Relaxed),
            self.data.load(Ordering::Relaxed),
        )
    }
}

/// Those that need to be followed are members.
fn is_usual(event: &epoll_event) -> bool {
    event.events & (EPOLLONESHOT | EPOLLEXCLUSIVE) as u32 == 0 && !Aliases::needed(event.u64)
}

impl Set {
    /// `epoll_ctl` for a connection that is the kernel's, if a note is enough.
    #[inline]
    pub fn control_by_note(
        &self,
        family: &ProcessGroup,
        number: (u32, Handle),
        epfd: RawFd,
        op: c_int,
        event: Option<&epoll_event>,
    ) -> Option<Result<(), Errno>> {
        let (set, handle) = number;
        let note = Note::of(handle.fd)?;
        let record = family.record(handle.number);
        if record.state() != State::Plain {
            return None;
        }
        let name = name(set, self.uses.load(Ordering::Relaxed));
        let light = self.hold_lightly();
        let _full = match light {
            Some(_) => None,
            None => Some(self.hold()?),
        };
        match (op, event) {
            (EPOLL_CTL_ADD, Some(event)) if is_usual(event) && !record.has(flag::IN_EPOLL) => {
                if !note.claim(name) {
                    return None;
                }
                // Who upgrades it, or duplicates its number, says so first and then looks for a note.
                let refs = family.refs(handle.number).load(Ordering::SeqCst);
                if record.state() != State::Plain || refs != 1 {
                    note.wipe(name);
                    return None;
                }
                note.write(epfd, event);
                let done = kernel::add(epfd, handle.fd, event.events, event.u64);
                if done.is_err() {
                    note.wipe(name);
                }
                Some(done)
            }
            (EPOLL_CTL_MOD, Some(event)) if is_usual(event) && note.is_in(name) => {
                let done = kernel::modify(epfd, handle.fd, event.events, event.u64);
                if done.is_ok() {
                    note.write(epfd, event);
                }
                Some(done)
            }
            (EPOLL_CTL_DEL, _) if note.is_in(name) => {
                note.wipe(name);
                Some(kernel::delete(epfd, handle.fd))
            }
            _ => None,
        }
    }
}

/// Is there a note for it?
#[inline]
pub fn has(fd: RawFd) -> bool {
    Note::of(fd).is_some_and(|note| !note.is_in(0))
}

/// The set that a number is noted in.
pub fn set_of(fd: RawFd) -> Option<&'static Set> {
    let name = Note::of(fd)?.set.load(Ordering::SeqCst);
    let set = super::get((name as u32).wrapping_sub(1))?;
    is_current(name).then_some(set)
}

/// From here on the connection is a member of the set that it was noted in.
#[inline(never)]
pub fn adopt(family: &ProcessGroup, handle: Handle) {
    let Some(note) = Note::of(handle.fd) else {
        return;
    };
    let name = note.set.load(Ordering::SeqCst);
    let set = super::get((name as u32).wrapping_sub(1)).filter(|_| name != 0);
    // Also in a child that has only inherited the set: its copy of it, and of the note.
    let Some(mut held) = set.and_then(Set::hold_raw) else {
        return;
    };
    let member = note.member(handle);
    // First the flag: who closes the number finds the note, or the flag.
    family.record(handle.number).set(flag::IN_EPOLL);
    if note.wipe(name) && is_current(name) {
        held.state().members.insert(handle.fd, member);
    }
}

/// The number closes: the kernel forgets its registration by itself.
#[inline]
pub fn forget(fd: RawFd) {
    if let Some(note) = Note::of(fd) {
        let name = note.set.load(Ordering::Relaxed);
        if name != 0 {
            note.wipe(name);
        }
    }
}
