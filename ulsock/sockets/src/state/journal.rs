//! What happened last to the connections of a family: opened, moved to another carrier, reset, closed. `ulsock events`
//! follows it, and `ulsock top` tells the history of a connection from it.
//!
//! Entries lie in a circle that its writers never wait for: who reads too rarely misses some, and knows how many.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, SystemTime};

use netstack::in_shared_memory;
use rustix::time::{ClockId, clock_gettime};

use crate::state::record::{Address, Endpoint, Record};
use rendezvous::reason::Reason;

/// Entries that are kept.
pub const ENTRIES: usize = 128;

/// Who carries bytes, as an entry names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarrierName {
    Kernel = 0,
    Shm = 1,
    Nic = 2,
}

impl CarrierName {
    pub fn name(self) -> &'static str {
        match self {
            CarrierName::Kernel => "kernel",
            CarrierName::Shm => "shm",
            CarrierName::Nic => "nic",
        }
    }

    fn from_number(number: u32) -> CarrierName {
        match number {
            1 => CarrierName::Shm,
            2 => CarrierName::Nic,
            _ => CarrierName::Kernel,
        }
    }
}

/// One direction of a connection, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Sends,
    Receives,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    Opened,
    /// From its byte on another carrier brings a direction.
    Moved {
        direction: Direction,
        from: CarrierName,
        to: CarrierName,
    },
    /// An error has ended it.
    Reset,
    /// After so many bytes were sent, by whatever carrier.
    Closed,
}

/// How many kinds of happenings are counted.
pub const COUNTS: usize = 7;

impl Happening {
    /// Which count it raises. A connection that moves is counted where it sends.
    pub fn count(self) -> Option<usize> {
        use CarrierName::{Kernel, Nic, Shm};
        Some(match self {
            Happening::Opened => 0,
            Happening::Closed => 1,
            Happening::Reset => 2,
            Happening::Moved {
                direction: Direction::Sends,
                from,
                to,
            } => match (from, to) {
                (Kernel, Shm) => 3,
                (Kernel, Nic) => 4,
                (Shm, _) => 5,
                (Nic, _) => 6,
                (Kernel, Kernel) => return None,
            },
            Happening::Moved { .. } => return None,
        })
    }

    /// Kind, direction, from, to: a byte each.
    pub fn number(self) -> u32 {
        let bytes = match self {
            Happening::Opened => [1, 0, 0, 0],
            Happening::Moved {
                direction,
                from,
                to,
            } => [2, direction as u8, from as u8, to as u8],
            Happening::Reset => [3, 0, 0, 0],
            Happening::Closed => [4, 0, 0, 0],
        };
        u32::from_le_bytes(bytes)
    }

    pub fn from_number(number: u32) -> Option<Happening> {
        let [kind, direction, from, to] = number.to_le_bytes();
        Some(match kind {
            1 => Happening::Opened,
            2 => Happening::Moved {
                direction: match direction {
                    0 => Direction::Sends,
                    _ => Direction::Receives,
                },
                from: CarrierName::from_number(from.into()),
                to: CarrierName::from_number(to.into()),
            },
            3 => Happening::Reset,
            4 => Happening::Closed,
            _ => return None,
        })
    }
}

#[repr(C, align(32))]
struct Entry {
    /// Its number plus one; 0 while it is written.
    ticket: AtomicU64,
    /// Nanoseconds since 1970.
    time: AtomicU64,
    /// Of the byte.
    offset: AtomicU64,
    happening: AtomicU32,
    reason: AtomicU32,
    pid: AtomicU32,
    /// Which of the family's records, and the how manieth use of it.
    record: AtomicU32,
    generation: AtomicU32,
    local: Address,
    peer: Address,
}

in_shared_memory!(Entry {
    ticket,
    time,
    offset,
    happening,
    reason,
    pid,
    record,
    generation,
    local,
    peer,
});

/// The entries alone. How many there have been is kept where there is memory already: a journal gets its own with its
/// first entry.
#[repr(C, align(64))]
pub struct Journal {
    entries: [Entry; ENTRIES],
}

in_shared_memory!(Journal { entries });

/// What is to be noted.
pub struct Noted<'a> {
    pub number: u32,
    pub record: &'a Record,
    pub happening: Happening,
    pub offset: u64,
    pub reason: Reason,
}

/// An entry as it was read.
#[derive(Clone, Debug)]
pub struct Event {
    pub time: SystemTime,
    pub pid: u32,
    /// Together they name the connection within its program.
    pub record: u32,
    pub generation: u32,
    pub local: Option<Endpoint>,
    pub peer: Option<Endpoint>,
    pub happening: Happening,
    pub offset: u64,
    pub reason: Reason,
}

impl Journal {
    /// Never waits, and needs no lock; nobody else has the ticket. The time of it.
    #[cold]
    pub fn note(&self, ticket: u64, noted: &Noted<'_>) -> u64 {
        let Noted {
            number,
            record,
            happening,
            offset,
            reason,
        } = *noted;
        let entry = &self.entries[ticket as usize % ENTRIES];
        entry.ticket.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        let now = clock_gettime(ClockId::Realtime);
        let nanos = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        entry.time.store(nanos, Ordering::Relaxed);
        entry.offset.store(offset, Ordering::Relaxed);
        let words = [
            (&entry.happening, happening.number()),
            (&entry.reason, reason as u32),
            (&entry.pid, os::pid::get()),
            (&entry.record, number),
            (&entry.generation, record.generation.load(Ordering::Relaxed)),
        ];
        for (place, word) in words {
            place.store(word, Ordering::Relaxed);
        }
        let [local, peer] = record.endpoints();
        entry.local.set_endpoint(local);
        entry.peer.set_endpoint(peer);
        entry.ticket.store(ticket + 1, Ordering::Release);
        nanos
    }

    /// An entry, if it is there and whole. The journal is a copy, or nobody writes to it.
    pub fn entry(&self, number: u64) -> Option<Event> {
        let entry = &self.entries[number as usize % ENTRIES];
        if entry.ticket.load(Ordering::Acquire) != number.wrapping_add(1) {
            return None;
        }
        let time = Duration::from_nanos(entry.time.load(Ordering::Relaxed));
        Some(Event {
            time: SystemTime::UNIX_EPOCH + time,
            pid: entry.pid.load(Ordering::Relaxed),
            record: entry.record.load(Ordering::Relaxed),
            generation: entry.generation.load(Ordering::Relaxed),
            local: entry.local.endpoint(),
            peer: entry.peer.endpoint(),
            happening: Happening::from_number(entry.happening.load(Ordering::Relaxed))?,
            offset: entry.offset.load(Ordering::Relaxed),
            reason: Reason::from_number(entry.reason.load(Ordering::Relaxed)),
        })
    }
}
