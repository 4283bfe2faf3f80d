//! The fd table: from a number to what we know about it, in one load.
//!
//! Private to the process and copied by fork, exactly as the kernel's own table. A number that is
//! not ours, which is nearly every one, costs a hook this one load and nothing else.

use std::num::NonZeroU32;
use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::runtime::thread;

/// Numbers above are never ours; the kernel's usual hard limit.
const MOST_NUMBERS: usize = 1 << 20;

const INTERNAL: u32 = u32::MAX;
const FRESH: u32 = u32::MAX - 1;
const LISTENER: u32 = u32::MAX - 2;
const EPOLL: u32 = 1 << 31;
/// With the highest bit: an io_uring.
const URING: u32 = EPOLL | 1 << 30;
/// With the next one too: a young connection.
const YOUNG: u32 = URING | 1 << 29;
/// Of a connection that is not left alone. So whose data calls concern us is one comparison.
const ATTENDED: u32 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Not ours.
    Foreign,
    /// One of our own: to the program it does not exist.
    Internal,
    /// A TCP socket that is not connected, and has no record yet: see [`crate::calls::opening`].
    Fresh,
    /// A TCP socket that listens.
    Listener,
    /// An epoll set, by its number in [`crate::ready::epoll`].
    Epoll(u32),
    /// An io_uring, by its number in [`crate::state::urings`].
    Uring(u32),
    /// A Unix connection without a record, by the life of its entry in [`crate::state::young`].
    Young(u32),
    /// A connection, by its record's number.
    Record(u32),
}

os::process_wide! {
    static TABLE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
    /// There has been a TCP socket or an epoll set.
    static USED: AtomicBool = AtomicBool::new(false);
}

/// Has there been a TCP socket or an epoll set? If not, nothing that a program does concerns us.
#[inline]
pub fn is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// Load time.
pub fn init() -> bool {
    let Some(base) = os::memory::reserve_private(MOST_NUMBERS * 4) else {
        return false;
    };
    TABLE.store(base.cast(), Ordering::Release);
    true
}

#[inline]
fn word(fd: RawFd) -> Option<&'static AtomicU32> {
    let base = TABLE.load(Ordering::Relaxed);
    if base.is_null() || fd as u32 as usize >= MOST_NUMBERS {
        return None;
    }
    // SAFETY: the table has MOST words, is never unmapped, and the index is below MOST.
    Some(unsafe { &*base.add(fd as usize) })
}

/// What the table says about a number that is not foreign.
#[derive(Clone, Copy)]
pub struct Word(NonZeroU32);

impl Word {
    /// The record's number, if it is a connection: all others have the highest bit.
    #[inline]
    pub fn record(self) -> Option<u32> {
        let word = self.0.get();
        (word & EPOLL == 0).then(|| (word & !ATTENDED) - 1)
    }

    #[inline]
    pub fn slot(self) -> Slot {
        decode(self.0.get())
    }
}

/// `None`: its data calls are none of our business.
#[inline]
pub fn attended(fd: RawFd) -> Option<Word> {
    let word = word(fd)?.load(Ordering::Acquire);
    NonZeroU32::new(word).filter(|_| word >= ATTENDED).map(Word)
}

/// Whose data calls are they?
#[derive(Clone, Copy)]
pub enum Attention {
    /// See [`attended`].
    Attended(Word),
    /// A connection that is left alone.
    LeftAlone(Word),
    Foreign,
}

/// The same as [`attended`], for those who tell connections that are left alone from the rest.
#[inline(always)]
pub fn attention(fd: RawFd) -> Attention {
    let word = word(fd).map_or(0, |word| word.load(Ordering::Acquire));
    match NonZeroU32::new(word).map(Word) {
        Some(known) if word >= ATTENDED => Attention::Attended(known),
        Some(known) => Attention::LeftAlone(known),
        None => Attention::Foreign,
    }
}

/// Nothing is done at the data calls of this connection any more, if the number still means it.
pub fn leave_alone(fd: RawFd, number: u32) {
    let slot = encode(Slot::Record(number));
    exchange(fd, slot, slot & !ATTENDED);
}

/// The contrary.
pub fn attend(fd: RawFd, number: u32) {
    let slot = encode(Slot::Record(number));
    exchange(fd, slot & !ATTENDED, slot);
}

fn exchange(fd: RawFd, old: u32, new: u32) {
    if let Some(word) = word(fd) {
        let order = Ordering::SeqCst;
        let _ = word.compare_exchange(old, new, order, order);
    }
}

/// `None`: not ours.
#[inline]
pub fn ours(fd: RawFd) -> Option<Word> {
    NonZeroU32::new(word(fd)?.load(Ordering::Acquire)).map(Word)
}

#[inline]
pub fn get(fd: RawFd) -> Slot {
    ours(fd).map_or(Slot::Foreign, Word::slot)
}

#[inline]
fn decode(word: u32) -> Slot {
    match word {
        0 => Slot::Foreign,
        INTERNAL => Slot::Internal,
        FRESH => Slot::Fresh,
        LISTENER => Slot::Listener,
        other if other & YOUNG == YOUNG => Slot::Young(other & !YOUNG),
        other if other & URING == URING => Slot::Uring(other & !URING),
        other if other & EPOLL != 0 => Slot::Epoll(other & !EPOLL),
        other => Slot::Record((other & !ATTENDED) - 1),
    }
}

#[inline]
fn encode(slot: Slot) -> u32 {
    match slot {
        Slot::Foreign => 0,
        Slot::Internal => INTERNAL,
        Slot::Fresh => FRESH,
        Slot::Listener => LISTENER,
        Slot::Epoll(number) => number | EPOLL,
        Slot::Uring(number) => number | URING,
        Slot::Young(life) => life | YOUNG,
        Slot::Record(number) => (number + 1) | ATTENDED,
    }
}

os::process_wide! {
    /// The program's highest number so far, of those beyond a usual fd_set.
    static HIGHEST: AtomicI32 = AtomicI32::new(FD_SET_SIZE - 1);
}
/// Bits of a usual fd_set.
pub const FD_SET_SIZE: RawFd = 1024;

#[inline]
pub fn note_highest(fd: RawFd) {
    if fd >= FD_SET_SIZE {
        HIGHEST.fetch_max(fd, Ordering::Relaxed);
    }
}

/// One more than the program's highest number, but at least the bits of a usual fd_set. Numbers that
/// it was born with are counted the first time.
pub fn end_of_programs() -> RawFd {
    os::process_wide! {
        static BORN_WITH: Once = Once::new();
    }
    BORN_WITH.call_once(|| {
        let own = |fd: &RawFd| get(*fd) != Slot::Internal;
        os::proc::numbers()
            .into_iter()
            .filter(own)
            .for_each(note_highest);
    });
    HIGHEST.load(Ordering::Relaxed) + 1
}

/// `false`: the number is out of our range, and stays foreign.
pub fn set(fd: RawFd, slot: Slot) -> bool {
    let word = word(fd);
    if let Some(word) = word {
        if !matches!(slot, Slot::Foreign | Slot::Internal | Slot::Uring(_)) && !is_used() {
            USED.store(true, Ordering::Relaxed);
        }
        word.store(encode(slot), Ordering::Release);
    }
    word.is_some()
}

/// Puts `new` there if `old` is there.
pub fn change(fd: RawFd, old: Slot, new: Slot) -> bool {
    let (old, new) = (encode(old), encode(new));
    let Some(word) = word(fd) else { return false };
    if thread::is_single() {
        let is_there = word.load(Ordering::Relaxed) == old;
        if is_there {
            word.store(new, Ordering::Release);
        }
        return is_there;
    }
    let order = Ordering::SeqCst;
    word.compare_exchange(old, new, order, order).is_ok()
}

/// The numbers of sockets that have no record, with their slots: those that are not connected, and young connections.
pub fn unrecorded() -> impl Iterator<Item = (RawFd, Slot)> {
    // Each of them was opened before our eyes.
    let all = (0..=HIGHEST.load(Ordering::Relaxed)).map(|fd| (fd, get(fd)));
    all.filter(|(_, slot)| matches!(slot, Slot::Fresh | Slot::Young(_)))
}

/// Puts `slot` there and says what was there before.
#[inline]
pub fn replace(fd: RawFd, slot: Slot) -> Option<Slot> {
    word(fd).map(|word| decode(thread::replace(word, encode(slot))))
}

/// Nothing is ours any more.
pub fn clear() {
    for (fd, _) in all() {
        set(fd, Slot::Foreign);
    }
}

/// Every number that is not foreign, with its slot.
pub fn all() -> impl Iterator<Item = (RawFd, Slot)> {
    let highest = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let end = highest
        .unwrap_or(MOST_NUMBERS as u64)
        .clamp(1024, MOST_NUMBERS as u64) as RawFd;
    (0..end)
        .map(|fd| (fd, get(fd)))
        .filter(|(_, slot)| *slot != Slot::Foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_survive_encoding() {
        for slot in [
            Slot::Foreign,
            Slot::Internal,
            Slot::Fresh,
            Slot::Listener,
            Slot::Epoll(7),
            Slot::Uring(7),
            Slot::Young(0),
            Slot::Young(32_767),
            Slot::Record(0),
            Slot::Record(65_535),
        ] {
            assert_eq!(decode(encode(slot)), slot);
        }
    }

    #[test]
    fn who_is_left_alone_is_known_all_the_same() {
        const FD: RawFd = 7;
        init();
        set(FD, Slot::Record(65_535));
        leave_alone(FD, 3);
        assert!(attended(FD).is_some(), "another connection");
        leave_alone(FD, 65_535);
        assert!(attended(FD).is_none());
        assert_eq!(get(FD), Slot::Record(65_535));
        assert_eq!(ours(FD).and_then(Word::record), Some(65_535));
        attend(FD, 65_535);
        assert!(attended(FD).is_some());
        for slot in [
            Slot::Internal,
            Slot::Fresh,
            Slot::Listener,
            Slot::Epoll(7),
            Slot::Uring(7),
            Slot::Young(7),
        ] {
            assert!(replace(FD, slot).is_some());
            assert!(attended(FD).is_some(), "{slot:?}");
        }
        set(FD, Slot::Foreign);
    }
}
