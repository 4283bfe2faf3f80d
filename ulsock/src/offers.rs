//! The offers tables: one file per uid in the run directory, in which the connecting sides of that
//! uid say which of their connections they would move off kernel TCP.
//!
//! The processes of the owning uid map it ([`OffersTable`]); all others read it by pread only
//! ([`ForeignTable`]), because its owner could truncate it under a mapping and kill them by SIGBUS.
//! An offer proves nothing: whoever finds one checks it against the kernel.

pub mod slot;

use std::fmt;
use std::os::fd::AsFd;
use std::sync::atomic::{fence, AtomicU64, Ordering};

use rustix::fs::{
    fallocate, fstat, openat, renameat_with, seek, FallocateFlags, Mode, OFlags, RenameFlags,
    SeekFrom,
};
use rustix::io::{self, pread, pwrite, Errno};
use rustix::process::{geteuid, getpid, test_kill_process, Pid};

use crate::rundir::{is_ours, is_regular, RunDir, NEW};
use crate::sys::fds::{InternalFd, Transient};
use crate::sys::map::{Access, Mapping};
use crate::sys::text::Text;
use slot::{Head, State, Words, WORDS};
pub use slot::{Key, Offer};

const SLOTS: usize = 16384;
/// Slots in which an offer may lie, beginning at its key's hash.
const WINDOW: usize = 16;
const SLOT: usize = WORDS * size_of::<u64>();
/// One page, so that no slot straddles two.
const HEADER: usize = PAGE;
const PAGE: usize = 4096;
const SIZE: usize = HEADER + SLOTS * SLOT;
const PAGES: usize = SIZE / PAGE;

/// Magic, version, and number of slots.
const IDENTITY: [u8; 16] = *b"ulsock-o\x01\0\0\0\0\x40\0\0";

/// Why an offers table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// Not a plain file that its uid alone can write.
    Stranger,
    /// Of another version of ulsock, or broken.
    Format,
    Os(Errno),
}

impl From<Errno> for TableError {
    fn from(errno: Errno) -> TableError {
        TableError::Os(errno)
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Stranger => {
                f.write_str("the offers table is not a plain file that its uid alone can write")
            }
            TableError::Format => f.write_str("the offers table is of another version of ulsock"),
            TableError::Os(errno) => write!(f, "the offers table: {errno}"),
        }
    }
}

/// No room for an offer: the connection stays on kernel TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

/// An offer that we published; still right or out of date, never somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId {
    index: usize,
    head: Head,
}

/// The table of our own uid.
#[derive(Debug)]
pub struct OffersTable {
    map: Mapping,
    fd: InternalFd,
    /// Pages that are known to have memory, one bit each.
    backed: [AtomicU64; PAGES.div_ceil(64)],
}

impl OffersTable {
    /// Opens the table of our effective uid, creating it when it is missing.
    pub fn own(dir: &RunDir) -> Result<OffersTable, TableError> {
        let uid = geteuid().as_raw();
        let fd = match open_table(dir, uid, OFlags::RDWR) {
            Err(TableError::Os(Errno::NOENT)) => {
                create(dir, &file_name(uid)?)?;
                open_table(dir, uid, OFlags::RDWR)
            }
            other => other,
        }?;
        let map = Mapping::new(fd.as_fd(), SIZE, Access::ReadWrite)?;
        Ok(OffersTable {
            map,
            fd,
            backed: [const { AtomicU64::new(0) }; PAGES.div_ceil(64)],
        })
    }

    /// Publishes an offer. An older one for the same connection is out of date and makes room.
    pub fn publish(&self, dir: &RunDir, offer: &Offer) -> Result<SlotId, TableFull> {
        let start = start_of(&offer.key);
        self.back(start)?;
        let same = |slot: &Slot<'_>, _| slot.read().is_some_and(|old| old.key == offer.key);
        let free = |_: &Slot<'_>, head: Head| head.state() == State::Free;
        let dead = |slot: &Slot<'_>, head: Head| slot.is_dead(head, dir);
        let wishes: [Wish<'_>; 3] = [&same, &free, &dead];
        for wish in wishes {
            for index in start..start + WINDOW {
                let slot = self.slot(index);
                let head = slot.head();
                if wish(&slot, head) {
                    if let Some(head) = slot.fill(head, offer) {
                        return Ok(SlotId { index, head });
                    }
                }
            }
        }
        Err(TableFull)
    }

    /// Takes an offer back; nothing happens if it is no longer there.
    pub fn withdraw(&self, id: SlotId) {
        self.slot(id.index).clear(id.head);
    }

    /// The offer for this connection, if there is one.
    pub fn find(&self, key: &Key) -> Option<Offer> {
        let start = start_of(key);
        self.back(start).ok()?;
        (start..start + WINDOW)
            .filter_map(|index| self.slot(index).read())
            .find(|offer| offer.key == *key)
    }

    /// Clears the slots of dead processes.
    pub fn sweep(&self, dir: &RunDir) {
        let mut page = 1;
        // Holes hold no offers, and touching them would fill them.
        while let Some(next) = self.next_data(page) {
            if self.back(first_slot(next)).is_err() {
                return;
            }
            for index in first_slot(next)..first_slot(next + 1) {
                let slot = self.slot(index);
                let head = slot.head();
                if slot.is_dead(head, dir) {
                    slot.clear(head);
                }
            }
            page = next + 1;
        }
    }

    /// The first page with data at or after `page`.
    fn next_data(&self, page: usize) -> Option<usize> {
        if page >= PAGES {
            return None;
        }
        let offset = seek(&self.fd, SeekFrom::Data((page * PAGE) as u64)).ok()?;
        let next = usize::try_from(offset).ok()? / PAGE;
        (page..PAGES).contains(&next).then_some(next)
    }

    /// Makes sure that the window at `start` has memory: in a full tmpfs the first touch of a hole,
    /// even to read, is a SIGBUS.
    fn back(&self, start: usize) -> Result<(), TableFull> {
        let first = offset_of(start) / PAGE;
        let last = (offset_of(start + WINDOW) - 1) / PAGE;
        for page in first..=last {
            let (word, bit) = (&self.backed[page / 64], 1 << (page % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                let offset = (page * PAGE) as u64;
                fallocate(&self.fd, FallocateFlags::KEEP_SIZE, offset, PAGE as u64)
                    .map_err(|_| TableFull)?;
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn slot(&self, index: usize) -> Slot<'_> {
        let index = index.min(SLOTS - 1);
        // SAFETY: the slot lies inside the mapping, which is 8-byte aligned and lives as long as
        // `self`; every process touches it by atomics only.
        let words = unsafe { &*self.map.base().add(offset_of(index)).cast() };
        Slot { words }
    }
}

/// Which slots may be taken for a new offer.
type Wish<'a> = &'a dyn Fn(&Slot<'_>, Head) -> bool;

/// One slot of our own table, which other processes of our uid write at the same time.
struct Slot<'a> {
    words: &'a [AtomicU64; WORDS],
}

impl Slot<'_> {
    fn head(&self) -> Head {
        Head(self.words[0].load(Ordering::Acquire))
    }

    fn swap_head(&self, from: Head, to: Head) -> bool {
        self.words[0]
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Claims the slot from what its head was, and fills it. `None`: another was faster.
    fn fill(&self, from: Head, offer: &Offer) -> Option<Head> {
        let pid = getpid().as_raw_pid().unsigned_abs();
        let writing = from.next(pid);
        if !self.swap_head(from, writing) {
            return None;
        }
        // A reader that sees one of the new words must not see the old head afterwards.
        fence(Ordering::Release);
        let ready = writing.with(State::Ready);
        for (word, value) in self.words.iter().zip(offer.encode(ready)).skip(1) {
            word.store(value, Ordering::Relaxed);
        }
        self.swap_head(writing, ready).then_some(ready)
    }

    fn clear(&self, head: Head) {
        self.swap_head(head, head.with(State::Free));
    }

    fn read(&self) -> Option<Offer> {
        let before = self.head();
        if before.state() != State::Ready {
            return None;
        }
        let mut words: Words = [before.0; WORDS];
        for (value, word) in words.iter_mut().zip(self.words).skip(1) {
            *value = word.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        let whole = self.words[0].load(Ordering::Relaxed) == before.0;
        whole.then(|| Offer::decode(&words)).flatten()
    }

    /// Whether its process is gone. A pid says so only within its own pid namespace; the lock of the
    /// mailbox says it everywhere. A half-written slot has only the pid, and taking it from a live
    /// writer makes that writer's last step fail.
    fn is_dead(&self, head: Head, dir: &RunDir) -> bool {
        if head.state() == State::Free || is_running(head.pid()) {
            return false;
        }
        match self.read() {
            Some(offer) => offer
                .mailbox
                .lock_file()
                .is_ok_and(|lock| dir.is_dead(&lock)),
            None => true,
        }
    }
}

fn is_running(pid: u32) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// The table of any uid, to read only.
#[derive(Debug)]
pub struct ForeignTable {
    fd: InternalFd,
}

impl ForeignTable {
    pub fn open(dir: &RunDir, uid: u32) -> Result<ForeignTable, TableError> {
        let fd = open_table(dir, uid, OFlags::RDONLY)?;
        Ok(ForeignTable { fd })
    }

    /// The offer for this connection, if there is one that can be read whole.
    pub fn find(&self, key: &Key) -> Option<Offer> {
        let mut window = [0; WINDOW * SLOT];
        let offset = offset_of(start_of(key)) as u64;
        if pread(&self.fd, &mut window, offset) != Ok(window.len()) {
            return None;
        }
        window
            .chunks_exact(SLOT)
            .filter_map(|bytes| Offer::decode(&slot::words_of(bytes)))
            .find(|offer| offer.key == *key)
    }
}

fn start_of(key: &Key) -> usize {
    (key.hash() % (SLOTS - WINDOW + 1) as u64) as usize
}

const fn offset_of(index: usize) -> usize {
    HEADER + index * SLOT
}

/// The first slot in a page.
const fn first_slot(page: usize) -> usize {
    (page * PAGE - HEADER) / SLOT
}

const PREFIX: &str = "offers";

fn file_name(uid: u32) -> io::Result<Text> {
    Text::format(format_args!("{PREFIX}.{uid}"))
}

/// The first `most` users who have a table: a file that has its owner's number in its name.
pub fn users(dir: &RunDir, most: usize) -> Vec<u32> {
    let mut users = Vec::new();
    dir.each_name(|name| {
        let (prefix, uid) = name.split_once('.').unwrap_or_default();
        let uid = uid.parse().ok().filter(|_| prefix == PREFIX);
        let owns = |uid: &u32| dir.stat(name).is_ok_and(|stat| stat.st_uid == *uid);
        if users.len() < most {
            users.extend(uid.filter(owns));
        }
    });
    users
}

/// Opens a table and checks all that can be checked from outside.
fn open_table(dir: &RunDir, uid: u32, access: OFlags) -> Result<InternalFd, TableError> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = openat(dir, &*file_name(uid)?, flags, Mode::empty())?;
    let fd = Transient::new(fd);
    let stat = fstat(&fd)?;
    let writable_by_others = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if !is_regular(&stat) || stat.st_uid != uid || stat.st_nlink != 1 || writable_by_others {
        return Err(TableError::Stranger);
    }
    let mut identity = [0; IDENTITY.len()];
    let read = pread(&fd, &mut identity, 0)?;
    if usize::try_from(stat.st_size) != Ok(SIZE) || read != identity.len() || identity != IDENTITY {
        return Err(TableError::Format);
    }
    Ok(fd.into_high()?)
}

/// Creates the table under another name first: nobody must see a half-made one.
fn create(dir: &RunDir, name: &str) -> Result<(), TableError> {
    let (fd, new) = dir.create_locked(NEW, SIZE as u64)?;
    let made = match is_ours(&fstat(&fd)?) {
        false => Err(TableError::Stranger),
        true => pwrite(&fd, &IDENTITY, 0)
            .and_then(|_| renameat_with(dir, &*new, dir, name, RenameFlags::NOREPLACE))
            .map_err(TableError::Os),
    };
    if made.is_err() {
        dir.remove(&new);
    }
    match made {
        Err(TableError::Os(Errno::EXIST)) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
