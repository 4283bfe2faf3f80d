//! A region's bytes, which other processes write at any time: copied in and out, never a reference or a slice.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use netstack::shared_memory;
use shm::segment::Segment;

use super::error::MemoryError;

const WORD: usize = size_of::<u64>();

#[derive(Debug)]
pub struct Place {
    segment: Segment,
    size: usize,
}

impl Place {
    /// The first `size` bytes of a segment, which has so many.
    pub fn new(segment: Segment, size: usize) -> Place {
        Place { segment, size }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Where these bytes begin.
    fn at(&self, offset: usize, len: usize) -> Result<*mut u8, MemoryError> {
        let end = offset.checked_add(len);
        if end.is_none_or(|end| end > self.size) {
            return Err(MemoryError::OutOfRange);
        }
        // SAFETY: inside the segment, as was checked.
        Ok(unsafe { self.segment.base().add(offset) })
    }

    /// A word that lies at a multiple of eight is written at once.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        let to = self.at(offset, bytes.len())?;
        if let Ok(word) = bytes.try_into()
            && offset.is_multiple_of(WORD)
        {
            return self.store(offset, u64::from_ne_bytes(word));
        }
        // SAFETY: so many bytes are mapped there, and no reference to them is ever made; the program's own lie elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    pub fn read(&self, offset: usize, room: &mut [u8]) -> Result<(), MemoryError> {
        let from = self.at(offset, room.len())?;
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(from, room.as_mut_ptr(), room.len()) };
        Ok(())
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64, MemoryError> {
        let at = self.at(offset, WORD)?;
        if !offset.is_multiple_of(WORD) {
            return Err(MemoryError::OutOfRange);
        }
        // SAFETY: mapped as long as this lives, and aligned, since a mapping begins at a page.
        Ok(unsafe { shared_memory::at(at) })
    }

    pub fn load(&self, offset: usize) -> Result<u64, MemoryError> {
        Ok(self.word(offset)?.load(Ordering::Acquire))
    }

    pub fn store(&self, offset: usize, word: u64) -> Result<(), MemoryError> {
        self.word(offset)?.store(word, Ordering::Release);
        Ok(())
    }
}
