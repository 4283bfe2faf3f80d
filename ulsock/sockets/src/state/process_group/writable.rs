//! The memory of a family as another process writes it: one of its user, or of root.
//!
//! What lies there is its program's, and may be anything.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;

use netstack::shared_memory;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};
use rustix::io::{self, Errno};

use super::found::FoundFamily;
use super::{Header, MAGIC, RECORDS, offset_of, size};
use crate::state::observe;
use crate::state::record::Record;
use os::fds::Transient;
use shm::segment::{Segment, SegmentError};

pub struct WritableFamily {
    memory: Segment,
    file: Transient,
}

impl WritableFamily {
    /// Opens what has been found once more, to write.
    pub fn open(found: &FoundFamily) -> io::Result<WritableFamily> {
        let path = format!("/proc/self/fd/{}", found.records.as_raw_fd());
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = Transient::new(open(path, flags, Mode::empty())?);
        let memory = Segment::adopt(file.as_fd(), size() as u64);
        let memory = memory.map_err(|error| match error {
            SegmentError::Os(errno) => errno,
            _ => Errno::INVAL,
        })?;
        let family = WritableFamily { memory, file };
        family.is_there(0, size_of::<Header>())?;
        let header = family.header();
        let record_size = header.record_size.load(Ordering::Relaxed) as usize;
        let is_ours = header.magic.load(Ordering::Acquire) == MAGIC;
        match is_ours && record_size == size_of::<Record>() {
            true => Ok(family),
            false => Err(Errno::INVAL),
        }
    }

    pub fn file(&self) -> &Transient {
        &self.file
    }

    /// Memory that is not to be had must be an error, not a SIGBUS: a program may say that it has records where it has
    /// none.
    fn is_there(&self, offset: usize, len: usize) -> io::Result<()> {
        let flags = FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, offset as u64, len as u64)
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is `size()` long, aligned to a page, and there as long as we are.
        unsafe { shared_memory::at(self.memory.base()) }
    }

    /// How many records have been used so far.
    pub fn used(&self) -> u32 {
        let highest = self.header().highest.load(Ordering::Acquire);
        highest.min(RECORDS as u32)
    }

    /// A record as it is now.
    pub fn read_record(&self, number: u32) -> Option<Record> {
        observe::read_at(&self.file, offset_of(number as usize))
    }

    /// To read what has never been a record takes no memory, as touching it would.
    fn has_been_used(&self, number: u32) -> bool {
        let seen = self.read_record(number);
        seen.is_some_and(|it| it.generation.load(Ordering::Relaxed) != 0)
    }

    pub fn record(&self, number: u32) -> Option<&Record> {
        let offset = offset_of(number as usize);
        if number >= self.used()
            || !self.has_been_used(number)
            || self.is_there(offset, size_of::<Record>()).is_err()
        {
            return None;
        }
        // SAFETY: below RECORDS, and so within the mapping; records lie behind the front, whose size is a multiple of
        // their alignment.
        Some(unsafe { shared_memory::at(self.memory.base().add(offset)) })
    }
}
