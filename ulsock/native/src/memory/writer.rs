//! An importer's view of a region of its own host: it writes, looks at the wires, and notes those that it has touched.

use std::ops::Range;
use std::os::fd::AsFd;

use netstack::shared_memory;
use netstack::watch::{Armed, Blocks, Mail, Sleep};
use os::fds::InternalFd;
use rustix::param::page_size;
use shm::doorbell::{DoorbellKind, Ringer};
use shm::segment::{ReadOnlySegment, Segment};

use super::error::MemoryError;
use super::place::Place;

/// Descriptors that an importer fetches: memory, wires, sleep, bell, mail.
pub const PARTS: usize = 5;

/// The bytes of a segment for so many.
pub fn pages_for(bytes: usize) -> Option<u64> {
    Some(bytes.checked_next_multiple_of(page_size())? as u64)
}

/// The same for one of our tables.
pub fn pages_of<T>() -> u64 {
    size_of::<T>().next_multiple_of(page_size()) as u64
}

#[derive(Debug)]
pub struct Writer {
    place: Place,
    wires: ReadOnlySegment,
    sleep: ReadOnlySegment,
    mail: Segment,
    bell: Ringer,
    blocks: Blocks,
}

impl Writer {
    /// What was fetched must be what it should be.
    pub fn adopt(parts: Vec<InternalFd>, size: usize) -> Result<Writer, MemoryError> {
        let parts: [InternalFd; PARTS] = parts.try_into().map_err(|_| MemoryError::Nonsense)?;
        let [memory, wires, sleep, bell, mail] = parts;
        let pages = pages_for(size).ok_or(MemoryError::Nonsense)?;
        let bell = Ringer::adopt(DoorbellKind::Event, bell, true);
        Ok(Writer {
            place: Place::new(Segment::adopt(memory.as_fd(), pages)?, size),
            wires: Segment::adopt_readonly(wires.as_fd(), pages_of::<Armed>())?,
            sleep: Segment::adopt_readonly(sleep.as_fd(), pages_of::<Sleep>())?,
            mail: Segment::adopt(mail.as_fd(), pages_of::<Mail>())?,
            bell: bell.map_err(|_| MemoryError::Nonsense)?,
            blocks: Blocks::new(size as u64),
        })
    }

    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.place.write(offset, bytes)?;
        // SAFETY: these segments have a page or more for each, and live as long as this; only the mail is written.
        let (wires, sleep, mail) = unsafe {
            (
                shared_memory::at::<Armed>(self.wires.base()),
                shared_memory::at::<Sleep>(self.sleep.base()),
                shared_memory::at::<Mail>(self.mail.base()),
            )
        };
        let written = offset as u64..(offset + bytes.len()) as u64;
        if note(wires, self.blocks, written, mail, sleep) {
            // An exporter that is gone hears nothing; its link tells.
            let _ = self.bell.ring();
        }
        Ok(())
    }
}

/// After a write: whether the bell is to be rung.
#[inline]
pub fn note(
    wires: &Armed,
    blocks: Blocks,
    written: Range<u64>,
    mail: &Mail,
    sleep: &Sleep,
) -> bool {
    let mut was_empty = false;
    wires.look(blocks, written, |group, touched| {
        was_empty |= mail.note(group, touched);
    });
    was_empty && sleep.wants_bell()
}
