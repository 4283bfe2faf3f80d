//! The offers tables: one file per uid in the run directory, in which the connecting sides of that
//! uid say which of their connections they would move off kernel TCP.
//!
//! Nobody maps one, not even its owner ([`OffersTable`]): who has the same number in a container that shares the run
//! directory could truncate it, and a mapping would be a SIGBUS. It is read and written slot by slot; the kernel
//! lets one writer after the other at a file. If two processes choose the same free slot at the same moment, one
//! offer is lost, and its connection stays where it is.
//! An offer proves nothing: whoever finds one checks it against the kernel.

mod file;
pub mod slot;

use rustix::io::{Errno, pread, pwrite};
use rustix::process::{Pid, geteuid, getpid, test_kill_process};

use crate::rundir::RunDir;
pub use crate::rundir::TableError;
pub use file::users;
use os::fds::InternalFd;
use os::may_grow_to;
use slot::{Head, State, WORDS, Words};
pub use slot::{Key, Offer};

const SLOTS: usize = 16384;
/// Slots in which an offer may lie, beginning at its key's hash.
const WINDOW: usize = 16;
const SLOT: usize = WORDS * size_of::<u64>();
/// One page, so that no slot straddles two.
const HEADER: usize = 4096;
const SIZE: usize = HEADER + SLOTS * SLOT;

/// Magic, version, and number of slots.
const IDENTITY: [u8; 16] = *b"ulsock-o\x01\0\0\0\0\x40\0\0";

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
    fd: InternalFd,
}

impl OffersTable {
    /// Opens the table of our effective uid, creating it when it is missing.
    pub fn own(dir: &RunDir) -> Result<OffersTable, TableError> {
        let fd = file::open_own(dir, geteuid().as_raw())?;
        Ok(OffersTable { fd })
    }

    /// Publishes an offer. An older one for the same connection is out of date and makes room.
    pub fn publish(&self, dir: &RunDir, offer: &Offer) -> Result<SlotId, TableFull> {
        let start = start_of(&offer.key);
        let window = self.window(start).ok_or(TableFull)?;
        let same = |words: &Words| Offer::decode(words).is_some_and(|old| old.key == offer.key);
        let free = |words: &Words| Head(words[0]).state() == State::Free;
        let dead = |words: &Words| is_dead(words, dir);
        let wishes: [&dyn Fn(&Words) -> bool; 3] = [&same, &free, &dead];
        let place = wishes
            .into_iter()
            .find_map(|wish| window.iter().position(wish))
            .ok_or(TableFull)?;
        let head = Head(window[place][0]).next(getpid().as_raw_pid().unsigned_abs());
        let index = start + place;
        match self.write(index, &offer.encode(head)) {
            true => Ok(SlotId { index, head }),
            false => Err(TableFull),
        }
    }

    /// Takes an offer back; nothing happens if it is no longer there.
    pub fn withdraw(&self, id: SlotId) {
        self.clear(id.index, id.head);
    }

    /// The offer for this connection, if there is one.
    pub fn find(&self, key: &Key) -> Option<Offer> {
        find(&self.fd, key)
    }

    /// Whoever looks for it finds another, or none.
    pub fn is_removed(&self) -> bool {
        file::is_removed(&self.fd)
    }

    /// Clears the slots of dead processes, as many as one may have to pay for.
    pub fn sweep(&self, dir: &RunDir) {
        let mut left = MOST_SWEPT;
        file::each_used(&self.fd, |index, words| {
            let is_used = Head(words[0]).state() != State::Free;
            if is_used && left > 0 {
                left -= 1;
                // Read again, for a reader may see half of what is just being written.
                if is_dead(words, dir) && self.read(index).as_ref() == Some(words) {
                    self.clear(index, Head(words[0]));
                }
            }
        });
    }

    /// The slots in which an offer may lie. If somebody has cut the table off, it is made whole.
    fn window(&self, start: usize) -> Option<[Words; WINDOW]> {
        read_window(&self.fd, start).or_else(|| {
            file::mend(&self.fd).ok()?;
            read_window(&self.fd, start)
        })
    }

    fn read(&self, index: usize) -> Option<Words> {
        let mut bytes = [0; SLOT];
        let read = pread(&self.fd, &mut bytes, offset_of(index) as u64);
        (read == Ok(SLOT)).then(|| slot::words_of(&bytes))
    }

    fn clear(&self, index: usize, head: Head) {
        if self.read(index).is_some_and(|words| words[0] == head.0) {
            self.write(index, &[head.with(State::Free).0]);
        }
    }

    fn write(&self, index: usize, words: &[u64]) -> bool {
        let mut bytes = [0; SLOT];
        for (to, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let len = size_of_val(words);
        // Beyond the limit of file sizes a write is a signal.
        may_grow_to(SIZE as u64)
            && pwrite(&self.fd, &bytes[..len], offset_of(index) as u64) == Ok(len)
    }
}

/// A sweep asks about so many slots at most: each may cost a few system calls.
const MOST_SWEPT: usize = 1024;

/// Whether the process of a used slot is gone. A pid says so only within its own pid namespace; the lock of the
/// mailbox says it everywhere. What is no offer is nobody's.
fn is_dead(words: &Words, dir: &RunDir) -> bool {
    let Some(offer) = Offer::decode(words) else {
        return true;
    };
    let lock = offer.mailbox.lock_file();
    !is_running(Head(words[0]).pid()) && lock.is_ok_and(|lock| dir.is_dead(&lock))
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
        let fd = file::open_foreign(dir, uid)?;
        Ok(ForeignTable { fd })
    }

    /// The offer for this connection, if there is one that can be read whole.
    pub fn find(&self, key: &Key) -> Option<Offer> {
        find(&self.fd, key)
    }

    /// Its owner has another by now, or none.
    pub fn is_removed(&self) -> bool {
        file::is_removed(&self.fd)
    }
}

fn find(table: &InternalFd, key: &Key) -> Option<Offer> {
    let window = read_window(table, start_of(key))?;
    let mut offers = window.iter().filter_map(Offer::decode);
    offers.find(|offer| offer.key == *key)
}

fn read_window(table: &InternalFd, start: usize) -> Option<[Words; WINDOW]> {
    let mut bytes = [0; WINDOW * SLOT];
    let read = pread(table, &mut bytes, offset_of(start) as u64);
    let slot = |n: usize| slot::words_of(&bytes[n * SLOT..(n + 1) * SLOT]);
    (read == Ok(bytes.len())).then(|| std::array::from_fn(slot))
}

fn start_of(key: &Key) -> usize {
    (key.hash() % (SLOTS - WINDOW + 1) as u64) as usize
}

const fn offset_of(index: usize) -> usize {
    HEADER + index * SLOT
}

#[cfg(test)]
mod tests;
