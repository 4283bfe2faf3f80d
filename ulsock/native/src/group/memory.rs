//! The memory of a member: its ring, which others read, and a page with its cursors in the rings of others and the word that says
//! whether it sleeps. Only its owner can write it; others have it mapped to read.
//!
//! What another process writes is copied out and then checked; no reference or slice to it is ever made.

use std::os::fd::BorrowedFd;
use std::ptr::copy_nonoverlapping;

use netstack::broadcast::{Cursor, Head, Sleeper};
use netstack::shared_memory;
use os::fds::InternalFd;
use rustix::io::Errno;
use shm::segment::{ReadOnlySegment, Segment, SegmentError};

/// Before the bytes of a ring.
const HEAD: usize = 4096;

const LINE: usize = 64;

/// Cursors of a page: so many others of the same host can be read by their rings.
pub const SLOTS: u16 = 255;

const PAGE: u64 = (1 + SLOTS as u64) * LINE as u64;

pub const LEAST_RING: usize = 4 << 10;
pub const MOST_RING: usize = 256 << 20;

/// Bytes before each message: its length. Each begins at a multiple of this.
pub const RECORD: u64 = 8;

pub fn is_ring_size(size: u64) -> bool {
    size.is_power_of_two() && (LEAST_RING as u64..=MOST_RING as u64).contains(&size)
}

/// What a message takes of the ring.
#[inline]
pub fn record_len(len: usize) -> u64 {
    RECORD + (len as u64).next_multiple_of(RECORD)
}

/// The longest message of a ring of this size.
pub fn longest(size: u64) -> usize {
    (size / 4) as usize
}

/// All of it is there from now on: a host without enough says so here, and not by a signal at the first touch, which may be a
/// reader's.
fn own_memory(size: u64) -> Result<(Segment, InternalFd), SegmentError> {
    // Who takes more than there is gets no error from the kernel, but is killed.
    if os::available::memory().is_some_and(|left| size > left) {
        return Err(SegmentError::Os(Errno::NOMEM));
    }
    let (memory, fd) = Segment::create_own(size)?;
    memory.populate(0, size as usize)?;
    Ok((memory, fd))
}

/// A ring that this process writes.
#[derive(Debug)]
pub struct OwnRing {
    memory: Segment,
    size: u64,
}

impl OwnRing {
    pub fn new(size: u64) -> Result<(OwnRing, InternalFd), SegmentError> {
        let (memory, fd) = own_memory(HEAD as u64 + size)?;
        Ok((OwnRing { memory, size }, fd))
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    pub fn head(&self) -> &Head {
        // SAFETY: at the begin of the mapping, which lives as long as `self`.
        unsafe { shared_memory::at(self.memory.base()) }
    }

    /// Writes bytes at a position that is not published yet. The caller has made sure that nobody needs what was there.
    #[inline]
    pub fn write(&self, position: u64, bytes: &[u8]) {
        assert!(bytes.len() as u64 <= self.size);
        let at = (position & (self.size - 1)) as usize;
        let first = bytes.len().min(self.size as usize - at);
        // SAFETY: both parts are inside the ring, and nobody else writes it; who reads it checks what he reads.
        unsafe {
            let base = self.memory.base().add(HEAD);
            copy_nonoverlapping(bytes.as_ptr(), base.add(at), first);
            copy_nonoverlapping(bytes[first..].as_ptr(), base, bytes.len() - first);
        }
    }
}

/// A ring to read from: another process's, or one of this process's own.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    size: u64,
}

#[derive(Debug)]
enum Memory {
    Foreign(ReadOnlySegment),
    Own(std::sync::Arc<OwnRing>),
}

impl Ring {
    pub fn adopt(fd: BorrowedFd<'_>, size: u64) -> Result<Ring, SegmentError> {
        if !is_ring_size(size) {
            return Err(SegmentError::WrongSize);
        }
        let memory = Segment::adopt_readonly(fd, HEAD as u64 + size)?;
        let memory = Memory::Foreign(memory);
        Ok(Ring { memory, size })
    }

    pub fn own(ring: &std::sync::Arc<OwnRing>) -> Ring {
        Ring {
            size: ring.size,
            memory: Memory::Own(ring.clone()),
        }
    }

    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    fn base(&self) -> *const u8 {
        match &self.memory {
            Memory::Foreign(segment) => segment.base(),
            Memory::Own(ring) => ring.memory.base(),
        }
    }

    #[inline]
    pub fn head(&self) -> &Head {
        // SAFETY: at the begin of the mapping, which lives as long as `self`; it is only read through this.
        unsafe { shared_memory::at(self.base()) }
    }

    /// Copies bytes out, from a position on. Its writer may change them meanwhile.
    #[inline]
    pub fn read(&self, position: u64, room: &mut [u8]) {
        assert!(room.len() as u64 <= self.size);
        let at = (position & (self.size - 1)) as usize;
        let first = room.len().min(self.size as usize - at);
        // SAFETY: both parts are inside the ring, and any bytes are bytes.
        unsafe {
            let base = self.base().add(HEAD);
            copy_nonoverlapping(base.add(at), room.as_mut_ptr(), first);
            copy_nonoverlapping(base, room[first..].as_mut_ptr(), room.len() - first);
        }
    }

    /// The length of the message at a position.
    #[inline]
    pub fn length(&self, position: u64) -> u32 {
        let mut word = [0; 4];
        self.read(position, &mut word);
        u32::from_le_bytes(word)
    }
}

/// The page of this member.
#[derive(Debug)]
pub struct OwnPage(Segment);

impl OwnPage {
    pub fn new() -> Result<(OwnPage, InternalFd), SegmentError> {
        let (memory, fd) = own_memory(PAGE)?;
        Ok((OwnPage(memory), fd))
    }

    /// Whether the receiver sleeps.
    #[inline]
    pub fn rest(&self) -> &Sleeper {
        // SAFETY: the first line of the page, which lives as long as `self`.
        unsafe { shared_memory::at(self.0.base()) }
    }

    #[inline]
    pub fn cursor(&self, slot: u16) -> &Cursor {
        // SAFETY: a line of the page, which lives as long as `self`.
        unsafe { shared_memory::at(self.0.base().add(line_of(slot))) }
    }
}

/// The page of another member.
#[derive(Debug)]
pub struct Page(ReadOnlySegment);

impl Page {
    pub fn adopt(fd: BorrowedFd<'_>) -> Result<Page, SegmentError> {
        Segment::adopt_readonly(fd, PAGE).map(Page)
    }

    #[inline]
    pub fn rest(&self) -> &Sleeper {
        // SAFETY: the first line of the page, which lives as long as `self`; it is only read through this.
        unsafe { shared_memory::at(self.0.base()) }
    }

    #[inline]
    pub fn cursor(&self, slot: u16) -> &Cursor {
        // SAFETY: a line of the page, as above.
        unsafe { shared_memory::at(self.0.base().add(line_of(slot))) }
    }
}

/// Where a slot is: in the page, whatever its number.
#[inline]
fn line_of(slot: u16) -> usize {
    (1 + usize::from(slot % SLOTS)) * LINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    #[test]
    fn bytes_go_around_the_edge() {
        let (own, fd) = OwnRing::new(4096).unwrap();
        let ring = Ring::adopt(fd.as_fd(), 4096).unwrap();
        let bytes: Vec<u8> = (0..100).collect();
        own.write(3 * 4096 - 40, &bytes);
        let own = Ring::own(&Arc::new(own));
        for ring in [ring, own] {
            let mut room = [0; 100];
            ring.read(3 * 4096 - 40, &mut room);
            assert_eq!(room, *bytes);
        }
        assert!(Ring::adopt(fd.as_fd(), 8192).is_err());
        assert!(Ring::adopt(fd.as_fd(), 5000).is_err());
        assert!(Page::adopt(fd.as_fd()).is_err());
    }

    #[test]
    fn memory_is_there_from_the_beginning() {
        let (_ring, ring) = OwnRing::new(1 << 20).unwrap();
        let (_page, page) = OwnPage::new().unwrap();
        for fd in [ring, page] {
            let stat = rustix::fs::fstat(fd).unwrap();
            assert!(stat.st_blocks * 512 >= stat.st_size);
        }
    }

    #[test]
    fn a_page_is_seen_by_others() {
        let (own, fd) = OwnPage::new().unwrap();
        let page = Page::adopt(fd.as_fd()).unwrap();
        own.cursor(254).begin(77);
        let mut known = netstack::broadcast::Known::new(0);
        assert_eq!(known.look(page.cursor(254), 100), Ok(77));
        assert_eq!(known.look(page.cursor(0), 100), Ok(77));
    }
}
