//! The family: a process and its forked children, and the records they share.
//!
//! The records are in a memfd whose size is sealed: a file in the run directory could be truncated by who has the same
//! number in a container that shares the directory, and all connections would end by a SIGBUS. `ulsock top` finds it
//! by its name ([`found`]). Beside it each process keeps private tables: how many of its fds hold a record, and
//! the record's link.

pub mod found;
pub mod writable;

use std::mem::offset_of;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use netstack::circle::Circle;
use netstack::{in_shared_memory, shared_memory};
use rustix::fs::fstat;
use rustix::io::{self, Errno};

use crate::runtime::thread;
use crate::runtime::tracer;
use crate::runtime::waits::{self, Waits};
use crate::state::capture::{Copies, Switch};
use crate::state::holders;
use crate::state::journal::{COUNTS, CarrierName, Happening, Journal, Noted};
use crate::state::record::{Counts, Record, State, flag};
use crate::state::ring_pair::RingPair;
use crate::state::table::{self, Slot};
use crate::state::trace_look;
use os::fds::InternalFd;
use os::fetch::fetch_to_read;
use os::fetch::fetch_two_to_read;
use os::fetch::fetch_two_to_write;
use os::memory::{reserve_pointers, reserve_private};
use os::text::Text;
use rendezvous::reason::{PLACES, Reason};
use rendezvous::rundir::RunDir;
use shm::segment::{Segment, SegmentError};

os::process_wide! {
    /// The family of this process, once a TCP socket has been seen.
    static OWN: AtomicPtr<ProcessGroup> = AtomicPtr::new(std::ptr::null_mut());
}

#[inline]
pub fn own() -> Option<&'static ProcessGroup> {
    // SAFETY: null, or leaked by `set_own`.
    unsafe { OWN.load(Ordering::Acquire).as_ref() }
}

pub fn set_own(family: ProcessGroup) {
    let family = std::ptr::from_ref(Box::leak(Box::new(family)));
    OWN.store(family.cast_mut(), Ordering::Release);
    if let Some(family) = own() {
        waits::count_in(&family.header().waits);
    }
}

/// The record behind a number, if it is one of our connections.
pub fn record_of(fd: RawFd) -> Option<(&'static ProcessGroup, u32, &'static Record)> {
    let Slot::Record(number) = table::get(fd) else {
        return None;
    };
    let family = own()?;
    Some((family, number, family.record(number)))
}

/// A number of this process that holds the record.
pub fn fd_of(number: u32) -> Option<RawFd> {
    let word = own()?.fd_word(number).load(Ordering::Relaxed);
    word.checked_sub(1).map(|fd| fd as RawFd)
}

/// Connections of one family at a time.
pub const RECORDS: usize = 64 << 10;
pub const MAGIC: u64 = u64::from_le_bytes(*b"ulsockF6");

/// At the beginning of the mapping.
#[repr(C, align(64))]
pub struct Header {
    pub magic: AtomicU64,
    pub record_size: AtomicU32,
    /// Records used so far, free ones among them.
    pub highest: AtomicU32,
    /// Connections and upgrades of the family's whole life, for the report.
    pub connections: AtomicU64,
    pub upgrades: AtomicU64,
    /// Of those, on the link to another host.
    pub links: AtomicU64,
    /// Processes of the family.
    pub members: AtomicU32,
    /// What closed connections carried: ring sent, ring received, kernel sent, kernel received.
    pub carried: [AtomicU64; 4],
    /// Why connections ended on the kernel, by reason.
    pub reasons: [AtomicU64; PLACES],
    pub waits: Waits,
    /// By [`Happening::count`].
    pub happened: [AtomicU64; COUNTS],
    /// Entries of each journal that there have been.
    pub noted: [AtomicU64; 2],
    /// Each journal has memory.
    pub has_journal: [AtomicU32; 2],
    /// What is asked of the whole program from outside: see [`crate::state::orders`].
    pub order: AtomicU32,
    /// See [`crate::state::capture`].
    pub capture: Switch,
}

in_shared_memory!(Header {
    magic,
    record_size,
    highest,
    connections,
    upgrades,
    links,
    members,
    carried,
    reasons,
    waits,
    happened,
    noted,
    has_journal,
    order,
    capture,
});

/// What lies in front of the records.
#[repr(C)]
pub struct Front {
    pub header: Header,
    /// What has opened and closed, which with many short connections is soon overwritten; and all else.
    pub journals: [Journal; 2],
}

in_shared_memory!(Front { header, journals });

pub const fn size() -> usize {
    circle_offset() + std::mem::size_of::<Copies>()
}

/// Of the circle of copies, behind all records.
pub const fn circle_offset() -> usize {
    offset_of(RECORDS).next_multiple_of(std::mem::align_of::<Copies>())
}

/// Of a record.
pub const fn offset_of(number: usize) -> usize {
    std::mem::size_of::<Front>() + number * std::mem::size_of::<Record>()
}

/// For tracers: the manual names them and their arguments.
fn probes(number: u32, happening: Happening, offset: u64, reason: Reason) {
    match happening {
        Happening::Opened => probe::probe!(ulsock, opened, number),
        Happening::Closed => probe::probe!(ulsock, closed, number, offset),
        Happening::Reset => probe::probe!(ulsock, reset, number),
        Happening::Moved { direction, to, .. } => {
            let (direction, reason) = (direction as u32, reason as u32);
            match to {
                CarrierName::Kernel => {
                    probe::probe!(ulsock, demoted, number, direction, offset, reason);
                }
                CarrierName::Shm | CarrierName::Nic => {
                    probe::probe!(ulsock, promoted, number, direction, offset, reason);
                }
            }
        }
    }
}

/// The name of a family's memfd, with the identity of its run directory in it.
fn name_of(dir: &RunDir) -> io::Result<Text> {
    let stat = fstat(dir)?;
    Text::format(format_args!(
        "ulsock-family.{:x}.{:x}",
        stat.st_dev, stat.st_ino
    ))
}

/// What /proc says where one is open.
fn link_of(dir: &RunDir) -> io::Result<Text> {
    Text::format(format_args!("/memfd:{} (deleted)", &*name_of(dir)?))
}

pub struct ProcessGroup {
    records: Segment,
    refs: *mut AtomicU32,
    /// Calls that sleep on each record: see [`crate::conn::kept`].
    callers: *mut AtomicU32,
    links: *mut AtomicPtr<RingPair>,
    /// Where to look for a free record next.
    hint: AtomicU32,
    /// A number in this process that holds each record, plus one; the latest.
    fds: *mut AtomicU32,
    memory: InternalFd,
}

// SAFETY: the raw tables hold only atomics and are never unmapped.
unsafe impl Send for ProcessGroup {}
// SAFETY: the raw tables hold only atomics and are never unmapped.
unsafe impl Sync for ProcessGroup {}

impl ProcessGroup {
    pub fn create(dir: &RunDir) -> io::Result<ProcessGroup> {
        let (records, memory) =
            Segment::create_named(&name_of(dir)?, size() as u64).map_err(|error| match error {
                SegmentError::Os(errno) => errno,
                _ => Errno::FBIG,
            })?;
        let table = |reserved: Option<*mut u8>| reserved.ok_or(Errno::NOMEM);
        let refs = table(reserve_private(RECORDS * 4))?.cast();
        let callers = table(reserve_private(RECORDS * 4))?.cast();
        let links = table(reserve_pointers(RECORDS * 8))?.cast();
        let fds = table(reserve_private(RECORDS * 4))?.cast();
        records.populate(0, std::mem::size_of::<Header>())?;
        let family = ProcessGroup {
            records,
            refs,
            callers,
            links,
            fds,
            hint: AtomicU32::new(0),
            memory,
        };
        family
            .header()
            .record_size
            .store(std::mem::size_of::<Record>() as u32, Ordering::Relaxed);
        family.header().members.store(1, Ordering::Relaxed);
        family.header().magic.store(MAGIC, Ordering::Release);
        Ok(family)
    }

    fn front(&self) -> &Front {
        // SAFETY: the mapping is at least `size()` long, aligned to a page, and there as long as we are.
        unsafe { shared_memory::at(self.records.base()) }
    }

    pub fn header(&self) -> &Header {
        &self.front().header
    }

    #[cfg(test)]
    pub fn file(&self) -> &InternalFd {
        &self.memory
    }

    /// Only while a capture is on its pages are sure to be there.
    pub fn circle(&self) -> Circle<'_> {
        // SAFETY: the mapping is `size()` long, and the circle its last part, aligned to a page.
        let copies: &Copies =
            unsafe { shared_memory::at(self.records.base().add(circle_offset())) };
        Circle {
            counters: &self.header().capture.counters,
            words: copies.words(),
        }
    }

    /// For those who look from outside.
    #[cold]
    pub fn note(&self, number: u32, happening: Happening, offset: u64, reason: Reason) {
        let front = self.front();
        if let Some(count) = happening.count() {
            front.header.happened[count].fetch_add(1, Ordering::Relaxed);
        }
        let journal = match happening {
            Happening::Opened | Happening::Closed => 0,
            Happening::Moved { .. } | Happening::Reset => 1,
        };
        probes(number, happening, offset, reason);
        tracer::happened(|| {
            let record = self.record(number);
            trace_look::happened(number, record, happening.number(), offset, reason)
        });
        if !self.has_memory(journal) {
            return;
        }
        let ticket = front.header.noted[journal].fetch_add(1, Ordering::Relaxed);
        let record = self.record(number);
        let noted = Noted {
            number,
            record,
            happening,
            offset,
            reason,
        };
        let time = front.journals[journal].note(ticket, &noted);
        if happening == Happening::Opened {
            record.born.store(time, Ordering::Relaxed);
        }
    }

    /// A journal gets its memory with its first entry: to touch what could not be had would be a SIGBUS.
    fn has_memory(&self, journal: usize) -> bool {
        let is_there = &self.header().has_journal[journal];
        if is_there.load(Ordering::Acquire) != 0 {
            return true;
        }
        let start = offset_of!(Front, journals) + journal * size_of::<Journal>();
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        let size = size_of::<Journal>() as u64;
        // What fails now, for a signal that has come meanwhile too, is tried again at the next entry.
        let has = rustix::fs::fallocate(&self.memory, flags, start as u64, size).is_ok();
        is_there.store(u32::from(has), Ordering::Release);
        has
    }

    #[inline]
    pub fn record(&self, number: u32) -> &Record {
        debug_assert!((number as usize) < RECORDS);
        // SAFETY: numbers come from `claim` and are below RECORDS; records lie behind the front, whose size is a multiple
        // of their alignment.
        unsafe { shared_memory::at(self.records.base().add(offset_of(number as usize))) }
    }

    /// A record for a new socket; `None` when all are taken.
    pub fn claim(&self) -> Option<u32> {
        let highest = self
            .header()
            .highest
            .load(Ordering::Relaxed)
            .min(RECORDS as u32);
        let hint = self.hint.load(Ordering::Relaxed);
        // A freed record is usually right behind the hint; looking far costs more than a new one.
        let near = (hint..highest)
            .take(16)
            .chain(hint.saturating_sub(16)..hint.min(highest));
        let free = near.into_iter().find(|number| self.record(*number).claim());
        let number = free
            .or_else(|| self.claim_new())
            .or_else(|| (0..highest).find(|n| self.record(*n).claim()))?;
        self.hint.store(number, Ordering::Relaxed);
        self.refs(number).store(1, Ordering::Relaxed);
        Some(number)
    }

    /// A record has become one of a connection.
    pub fn count_connection(&self) {
        self.count(&self.header().connections, 1);
    }

    /// A connection has ended that never had a record.
    #[inline]
    pub fn count_young(&self) {
        let header = self.header();
        self.count(&header.connections, 1);
        self.count(&header.reasons[Reason::Young as usize], 1);
    }

    /// Adds to a count of the family's, without a locked instruction while nobody else does.
    #[inline]
    fn count(&self, counter: &AtomicU64, n: u64) {
        if thread::is_single() && self.header().members.load(Ordering::Relaxed) == 1 {
            Counts::add(counter, n);
        } else {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// A record that was never used. Memory that is not to be had must be an error here, not a SIGBUS at the
    /// first touch: who looks at those below `highest` may rely on theirs.
    fn claim_new(&self) -> Option<u32> {
        let highest = &self.header().highest;
        loop {
            let next = highest.load(Ordering::Acquire);
            if next as usize >= RECORDS {
                return None;
            }
            let size = std::mem::size_of::<Record>();
            let start = offset_of(next as usize) as u64;
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&self.memory, flags, start, size as u64).ok()?;
            let mine =
                highest.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed);
            if mine.is_ok() && self.record(next).claim() {
                return Some(next);
            }
        }
    }

    /// The last holder let go: what it carried is added up, and the record serves another socket.
    pub fn free(&self, number: u32) {
        let record = self.record(number);
        let header = self.header();
        if record.is_connection() {
            let [ring, _, kernel, _] = record.carried();
            let sent = ring.load(Ordering::Relaxed) + kernel.load(Ordering::Relaxed);
            self.note(number, Happening::Closed, sent, record.reason());
        }
        for (total, counter) in header.carried.iter().zip(record.carried()) {
            let carried = counter.load(Ordering::Relaxed);
            if carried > 0 {
                self.count(total, carried);
            }
        }
        if record.has(flag::UPGRADED) {
            self.count(&header.upgrades, 1);
        }
        if record.nic.is_used() {
            self.count(&header.links, 1);
        }
        let reason = record
            .is_connection()
            .then(|| header.reasons.get(record.reason() as usize));
        if let Some(total) = reason.flatten() {
            self.count(total, 1);
        }
        // A thread asleep in a kernel call on the closed number still counts itself out: then the
        // record is not used again.
        let idle = record.tx.gate.is_idle() && record.rx.gate.is_idle();
        holders::let_go(record, idle);
        if idle {
            record.set_state(State::Free);
            if number < self.hint.load(Ordering::Relaxed) {
                self.hint.store(number, Ordering::Relaxed);
            }
        } else {
            record.set_state(State::Out);
        }
    }

    /// How many fds of this process hold the record.
    pub fn refs(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the table has RECORDS words and is never unmapped.
        unsafe { &*self.refs.add(number as usize) }
    }

    /// How many calls of this process that sleep keep the record's connection.
    pub fn callers(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the table has RECORDS words and is never unmapped.
        unsafe { &*self.callers.add(number as usize) }
    }

    /// The latest number in this process that holds the record, plus one.
    pub fn fd_word(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the table has RECORDS words and is never unmapped.
        unsafe { &*self.fds.add(number as usize) }
    }

    #[inline]
    fn link_word(&self, number: u32) -> &AtomicPtr<RingPair> {
        // SAFETY: the table has RECORDS words and is never unmapped.
        unsafe { &*self.links.add(number as usize) }
    }

    /// The ring pair of a managed record; valid within the caller's critical section.
    #[inline]
    pub fn link(&self, number: u32) -> Option<&RingPair> {
        // SAFETY: null, or a link that is freed only after every critical section has ended.
        unsafe { self.link_word(number).load(Ordering::Acquire).as_ref() }
    }

    /// Receives and sends on this connection are about to come.
    pub fn fetch(&self, number: u32) {
        let record = self.record(number);
        fetch_to_read(record);
        fetch_two_to_write(&record.rx);
        fetch_two_to_write(&record.tx);
        // A hint only: it may have gone.
        fetch_two_to_read(self.link_word(number).load(Ordering::Relaxed));
    }

    /// Puts a link there, or takes it away; the old one is the caller's to retire.
    pub fn set_link(&self, number: u32, link: Option<Box<RingPair>>) -> Option<Box<RingPair>> {
        if link.is_none() && self.link_word(number).load(Ordering::Relaxed).is_null() {
            return None;
        }
        let new = link.map_or(std::ptr::null_mut(), Box::into_raw);
        let old = self.link_word(number).swap(new, Ordering::AcqRel);
        // SAFETY: every non-null pointer in the table came from `Box::into_raw` and is swapped out
        // only once.
        (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
    }

    /// The records that have been used so far.
    pub fn used(&self) -> std::ops::Range<u32> {
        let highest = self.header().highest.load(Ordering::Acquire);
        0..highest.min(RECORDS as u32)
    }

    /// The records that this process holds.
    pub fn held(&self) -> impl Iterator<Item = u32> + '_ {
        self.used()
            .filter(|number| self.refs(*number).load(Ordering::Relaxed) > 0)
    }
}
