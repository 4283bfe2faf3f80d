//! The rings of one direction of a connection, in a segment.

use netstack::ring::mark::{LEVEL_SIZE, LEVELS};
use netstack::ring::{AHEAD, Memory, Sink, Source};

use crate::pair::PairSegment;
use os::fetch::fetch_eight_to_write;
use os::fetch::fetch_two_to_read;
use os::fetch::fetch_two_to_write;
use shm::layout::SideNumber;

/// What a side hints at when its kernel socket should be looked at: it has closed or ended its direction,
pub const CLOSED: u32 = 1;
/// or shut both down.
pub const SHUT_BOTH: u32 = 2;
/// or closed a Unix socket with bytes unread.
pub const RESET: u32 = 3;

/// The rings of one direction, all levels.
#[derive(Clone)]
#[repr(transparent)]
pub struct Rings {
    base: [*mut u8; LEVELS],
}

impl Rings {
    /// Whoever uses them keeps the segment.
    pub fn of(segment: &PairSegment, conn: u32, direction: SideNumber) -> Rings {
        Rings {
            base: std::array::from_fn(|level| segment.ring(level, conn, direction)),
        }
    }
}

impl Rings {
    /// The stream's bytes at `offset` will be read soon. The offset has lain in shared memory, and may be any.
    pub fn fetch_to_read(&self, level: u8, offset: u64) {
        fetch_two_to_read(self.place(level, offset));
    }

    /// They will be written.
    pub fn fetch_to_write(&self, level: u8, offset: u64) {
        fetch_two_to_write(self.place(level, offset));
    }

    fn place(&self, level: u8, offset: u64) -> *const u8 {
        let level = level as usize % LEVELS;
        self.base[level].wrapping_add((offset & (LEVEL_SIZE[level] - 1)) as usize)
    }
}

impl Memory for Rings {
    #[inline(always)]
    fn fill<S: Source + ?Sized>(&self, level: u8, at: usize, len: usize, from: &mut S) -> usize {
        // SAFETY: the protocol keeps `at + len` within the level's ring, which is mapped.
        unsafe { from.give(self.base[level as usize].add(at), len) }
    }

    #[inline(always)]
    fn fetch(&self, level: u8, at: usize) {
        const { assert!(AHEAD == 8 * 64) };
        fetch_eight_to_write(self.base[level as usize].wrapping_add(at));
    }

    #[inline(always)]
    fn fetch_here(&self, level: u8, at: usize) {
        fetch_two_to_write(self.base[level as usize].wrapping_add(at));
    }

    #[inline(always)]
    fn drain<S: Sink + ?Sized>(&self, level: u8, at: usize, len: usize, to: &mut S) {
        // SAFETY: the protocol keeps `at + len` within the level's ring, which is mapped.
        unsafe { to.take(self.base[level as usize].add(at), len) }
    }
}
