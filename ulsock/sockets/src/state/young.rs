//! Young Unix connections: connected, and without a record. Most Unix connections end after a few calls; what is known of one
//! until then is a few numbers in an entry of this array, by its descriptor. The entry is private to the process: whatever
//! can reach the socket in a second way makes it grow up first ([`crate::calls::opening`]).
//!
//! Handlers of signals write to socket pairs, so there is no lock. One word has it all: the life that the entry is in,
//! which the table names too; how many calls are in the kernel, each way; and the record, once there is one. No new life
//! begins while anybody is inside. Who publishes a record has entered its gates for those who are inside, and they leave
//! them. Each byte goes to the record once: whoever takes the counts leaves zero behind.

mod word;

#[cfg(test)]
mod tests;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use libc::c_int;

use crate::runtime::thread::Thread;
use crate::runtime::way::Way;
use crate::state::process_group::{self, ProcessGroup};
use crate::state::record::{Counts, Record};
use crate::state::upgrade_history;
use shm::order;
use word::{Entrance, Word};

/// Descriptors above get a record at once.
const MOST_NUMBERS: usize = 1 << 16;

/// It called connect, or is the first of a pair.
pub const CONNECTED: u32 = 1;
/// Its connect is under way.
pub const CONNECTING: u32 = 1 << 1;
/// It was accepted so.
pub const NONBLOCK: u32 = 1 << 2;

/// All zero: never used.
#[repr(align(64))]
struct Entry {
    word: Word,
    sent: AtomicU64,
    received: AtomicU64,
    /// Data calls, and at which of them it grows up.
    calls: AtomicU32,
    after: AtomicU32,
    /// Its history, by key.
    history: AtomicU32,
    facts: AtomicU32,
}

os::process_wide! {
    static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
    /// There has been one.
    static USED: AtomicBool = AtomicBool::new(false);
    /// Forks under way.
    static FORKS: AtomicU32 = AtomicU32::new(0);
}

/// Before fork: what is born from here on gets a record at once, in which the child is counted.
pub fn before_fork() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

/// In the parent.
pub fn after_fork() {
    FORKS.fetch_sub(1, Ordering::SeqCst);
}

/// In the child, whose parent's threads are not there: nobody forks, and nobody is inside the entries of these numbers.
pub fn forget(numbers: impl Iterator<Item = RawFd>) {
    FORKS.store(0, Ordering::SeqCst);
    for entry in numbers.filter_map(entry) {
        entry.word.forget();
    }
}

/// Load time. Without memory for it connections get records at once.
pub fn init() {
    if let Some(base) = os::memory::reserve_private(MOST_NUMBERS * size_of::<Entry>()) {
        ENTRIES.store(base.cast(), Ordering::Release);
    }
}

/// Has there been any?
#[inline]
pub fn are_used() -> bool {
    USED.load(Ordering::Relaxed)
}

#[inline]
fn entry(fd: RawFd) -> Option<&'static Entry> {
    let base = ENTRIES.load(Ordering::Relaxed);
    if base.is_null() || fd as u32 as usize >= MOST_NUMBERS {
        return None;
    }
    // SAFETY: the array has MOST_NUMBERS entries, all zero is a valid one, it is never unmapped, and the index is below.
    Some(unsafe { &*base.add(fd as usize) })
}

/// A socket becomes young; the life of its entry, for the table. `None`: it cannot, and gets a record. The number is the
/// caller's own: nobody else knows yet that it is a new socket.
#[inline]
pub fn born(fd: RawFd, facts: u32, history: u32, after: u32) -> Option<u32> {
    let entry = entry(fd).filter(|_| FORKS.load(Ordering::SeqCst) == 0)?;
    let last = entry.word.idle()?;
    for count in [&entry.sent, &entry.received] {
        count.store(0, Ordering::Relaxed);
    }
    entry.calls.store(0, Ordering::Relaxed);
    entry.after.store(after, Ordering::Relaxed);
    entry.history.store(history, Ordering::Relaxed);
    entry.facts.store(facts, Ordering::Relaxed);
    if !are_used() {
        USED.store(true, Ordering::Relaxed);
    }
    entry.word.begin(last)
}

/// Counts a data call; `true`: from this one on it is to have a record.
#[inline]
pub fn count_call(fd: RawFd) -> bool {
    let Some(entry) = entry(fd) else { return false };
    let calls = entry.calls.load(Ordering::Relaxed).wrapping_add(1);
    // The record counts that one itself.
    if calls >= entry.after.load(Ordering::Relaxed) {
        return true;
    }
    // A call that two threads lose to each other does no harm.
    entry.calls.store(calls, Ordering::Relaxed);
    false
}

/// It cannot have a record now: so many calls later.
pub fn put_off(fd: RawFd, calls: u32) {
    if let Some(entry) = entry(fd) {
        let now = entry.calls.load(Ordering::Relaxed).saturating_add(1);
        let later = now.saturating_add(calls);
        entry.after.store(later, Ordering::Relaxed);
    }
}

/// The connect that was under way has ended; `false`: none was.
pub fn connect_ended(fd: RawFd) -> bool {
    let Some(entry) = entry(fd) else { return false };
    let facts = entry.facts.load(Ordering::Relaxed);
    entry.facts.store(facts & !CONNECTING, Ordering::Relaxed);
    facts & CONNECTING != 0
}

/// Its number is closed.
#[inline]
pub fn closed(fd: RawFd) {
    order::spoke_by_kernel();
    if let Some(entry) = entry(fd) {
        let [history, calls] = [&entry.history, &entry.calls].map(|n| n.load(Ordering::Relaxed));
        upgrade_history::ended_young(history, calls);
    }
    if let Some(family) = process_group::own() {
        family.count_young();
    }
}

/// What became of a call on a young connection at its beginning.
pub enum Entered {
    /// Make it, then [`YoungCall::done`].
    Young(YoungCall),
    /// It has this record, which its number will name in a moment.
    Grown(u32),
    /// The number means something else by now.
    Gone,
    /// More calls are inside than can be counted.
    Full,
}

/// A kernel call on a young connection that is under way.
#[must_use]
pub struct YoungCall {
    entry: &'static Entry,
    way: Way,
    /// It takes nothing.
    peeks: bool,
    /// Its place in the thread's list of kernel calls.
    flight: Option<u8>,
}

/// `life` is what the table says of the number.
#[inline]
pub fn enter(fd: RawFd, life: u32, way: Way) -> Entered {
    let Some(entry) = entry(fd) else {
        return Entered::Gone;
    };
    match entry.word.enter(life, way) {
        Entrance::In => {}
        refused => return turned_away(entry, refused, way),
    }
    Entered::Young(YoungCall {
        entry,
        way,
        peeks: false,
        flight: None,
    })
}

/// Who must not stay leaves; if a record came meanwhile, of whichever life, its gate has been entered for us.
#[cold]
fn turned_away(entry: &Entry, refused: Entrance, way: Way) -> Entered {
    let knew = refused.found_record();
    if let Some(number) = entry.word.leave(way).filter(|_| !knew) {
        leave_gate(number, way);
    }
    match refused {
        Entrance::Grown(number) => Entered::Grown(number),
        Entrance::Full => Entered::Full,
        Entrance::In | Entrance::Stale { .. } => Entered::Gone,
    }
}

fn leave_gate(number: u32, way: Way) {
    if let Some(family) = process_group::own() {
        family.record(number).gate(way).leave();
    }
}

impl YoungCall {
    /// A receive that leaves the bytes where they are moves none.
    #[inline]
    fn peeking(self, peeks: bool) -> YoungCall {
        YoungCall { peeks, ..self }
    }

    /// With these flags: one that may sleep is written down, for it may be left by a jump, or cancelled.
    #[inline]
    pub fn with_flags(self, flags: c_int) -> YoungCall {
        let call = self.peeking(flags & libc::MSG_PEEK != 0);
        let facts = call.entry.facts.load(Ordering::Relaxed);
        if flags & libc::MSG_DONTWAIT != 0 || facts & NONBLOCK != 0 {
            return call;
        }
        let flights = Thread::me().map(|me| &me.bed().flights);
        let place = flights.and_then(|flights| flights.begin_young(call.entry, call.way));
        YoungCall {
            flight: place.map(|place| place as u8),
            ..call
        }
    }

    /// Ends the call and counts what it moved (the real function's return value). It makes no call that could change
    /// `errno`.
    #[inline]
    pub fn done(self, result: isize) {
        let entry = self.entry;
        if let (Some(place), Some(me)) = (self.flight, Thread::known()) {
            me.bed().flights.came_back(place.into());
        }
        if result > 0 && !self.peeks {
            if self.way == Way::Out {
                order::spoke_by_kernel();
            }
            // First the bytes: who finds the call gone finds them counted.
            entry
                .count(self.way)
                .fetch_add(result as u64, Ordering::SeqCst);
            if let Some(number) = entry.word.record() {
                entry.hand_over(number);
            }
        }
        entry.leave(self.way);
    }
}

/// A call was left by a jump, or cancelled: it has moved nothing that anybody has got.
///
/// # Safety
/// An entry of the array.
pub unsafe fn left(entry: *const (), way: Way) {
    // SAFETY: as the caller says; the array is never unmapped, and all in it is atomic.
    unsafe { &*entry.cast::<Entry>() }.leave(way);
}

impl Entry {
    #[inline]
    fn leave(&self, way: Way) {
        if let Some(number) = self.word.leave(way) {
            leave_gate(number, way);
        }
    }

    #[inline]
    fn count(&self, way: Way) -> &AtomicU64 {
        match way {
            Way::Out => &self.sent,
            Way::In => &self.received,
        }
    }

    /// What has been counted here goes to the record. Its gates are held meanwhile, so nobody relies on its counts yet.
    #[cold]
    fn hand_over(&self, number: u32) {
        let Some(family) = process_group::own() else {
            return;
        };
        let record = family.record(number);
        for way in [Way::Out, Way::In] {
            let bytes = self.count(way).swap(0, Ordering::SeqCst);
            if bytes > 0 {
                record.unix.add(way, bytes);
                Counts::add(&record.counts(way).kernel_bytes, bytes);
            }
        }
    }
}

/// A call that gives the connection a record. It is inside, so no new life begins.
pub struct Growing {
    call: YoungCall,
}

impl Growing {
    /// `None`: the number means something else by now, or another thread is at it.
    pub fn begin(fd: RawFd, life: u32) -> Option<Growing> {
        match enter(fd, life, Way::In) {
            Entered::Young(call) => Some(Growing { call }),
            _ => None,
        }
    }

    pub fn has(&self, fact: u32) -> bool {
        self.call.entry.facts.load(Ordering::Relaxed) & fact != 0
    }

    pub fn history(&self) -> u32 {
        self.call.entry.history.load(Ordering::Relaxed)
    }

    pub fn calls(&self) -> u32 {
        self.call.entry.calls.load(Ordering::Relaxed)
    }

    /// It gets none.
    pub fn give_up(self) {
        self.call.done(0);
    }

    /// Gives it this record, which nobody has seen; `then` puts it into the table before anybody can rely on its
    /// counts. `None`: another thread was faster, and the record is not used.
    pub fn publish<T>(
        self,
        family: &ProcessGroup,
        number: u32,
        then: impl FnOnce() -> T,
    ) -> Option<T> {
        let (entry, record) = (self.call.entry, family.record(number));
        // We are inside to receive; this holds the other gate until all has been counted.
        record.gate(Way::Out).enter();
        let mut entered = [0, 0];
        let published = entry.word.publish(number, |inside| {
            move_in(record, &mut entered, inside);
        });
        if !published {
            move_in(record, &mut entered, [0, 0]);
            record.gate(Way::Out).leave();
            self.call.done(0);
            return None;
        }
        entry.hand_over(number);
        let result = then();
        record.gate(Way::Out).leave();
        self.call.done(0);
        Some(result)
    }
}

/// So many calls shall be in the gates, to send and to receive, in place of those that have `entered`.
fn move_in(record: &Record, entered: &mut [u32; 2], inside: [u32; 2]) {
    for (way, (have, want)) in [Way::Out, Way::In]
        .into_iter()
        .zip(entered.iter_mut().zip(inside))
    {
        while *have < want {
            // It is open: nobody has seen the record.
            record.gate(way).enter();
            *have += 1;
        }
        while *have > want {
            record.gate(way).leave();
            *have -= 1;
        }
    }
}

/// Is a call this way inside the kernel that was made on this young connection?
pub fn is_inside(fd: RawFd, way: Way) -> bool {
    entry(fd).is_some_and(|entry| entry.word.is_inside(way))
}

/// Is a call this way inside the kernel that was made when the connection was young, and has it this record now?
pub fn has_calls_inside(fd: RawFd, number: u32, way: Way) -> bool {
    entry(fd).is_some_and(|entry| entry.word.has_inside(number, way))
}
