//! From a connection's name to its record, and to its number.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use crate::runtime::handle::Handle;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Record, State};
use crate::state::table::{self, Slot};

impl Handle {
    #[inline]
    pub fn new(family: &ProcessGroup, number: u32, fd: RawFd) -> Handle {
        Handle::of(family.record(number), number, fd)
    }

    #[inline]
    pub fn of(record: &Record, number: u32, fd: RawFd) -> Handle {
        let generation = record.generation.load(Ordering::Relaxed);
        Handle {
            number,
            fd,
            generation,
        }
    }

    /// Does the record still serve this connection?
    #[inline]
    pub fn is_of(&self, record: &Record) -> bool {
        record.generation.load(Ordering::Relaxed) == self.generation
    }

    /// Does its fd still mean it?
    pub fn is_open(&self) -> bool {
        table::get(self.fd) == Slot::Record(self.number)
            && self.record().is_some_and(|record| self.is_of(record))
    }

    /// Has it a ring pair now?
    #[inline]
    pub fn is_managed(&self) -> bool {
        self.record()
            .is_some_and(|record| record.state() == State::Managed)
    }

    /// Its record, if that still serves it.
    pub fn record_now(&self) -> Option<&'static Record> {
        self.record().filter(|record| self.is_of(record))
    }

    /// Its record, whoever it serves by now.
    pub fn record(&self) -> Option<&'static Record> {
        Some(crate::state::process_group::own()?.record(self.number))
    }
}
