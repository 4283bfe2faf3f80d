//! The model of ring memory, in which loom sees every byte; and the position-dependent content.

use loom::cell::UnsafeCell;
use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::{Memory, Sink, Source};

pub struct Rings(Vec<Vec<UnsafeCell<u8>>>);

impl Rings {
    pub fn new(largest: u8) -> Rings {
        let ring = |size: &u64| (0..*size).map(|_| UnsafeCell::new(0)).collect();
        Rings(LEVEL_SIZE[..=largest as usize].iter().map(ring).collect())
    }

    /// Gives the memory of the larger rings back: what is in them is gone.
    pub fn punch(&self) {
        for cell in self.0.iter().skip(1).flatten() {
            // SAFETY: the pointer is valid for the byte of its cell; loom checks for races.
            cell.with_mut(|byte| unsafe { byte.write(0) });
        }
    }
}

impl Memory for Rings {
    fn fill<S: Source + ?Sized>(&self, level: u8, at: usize, len: usize, from: &mut S) -> usize {
        let cells = &self.0[level as usize][at..at + len];
        // SAFETY: the pointer is valid for the one byte of its cell; loom checks for races.
        let give = |cell: &UnsafeCell<u8>| cell.with_mut(|to| unsafe { from.give(to, 1) });
        cells.iter().map(give).sum()
    }

    fn drain<S: Sink + ?Sized>(&self, level: u8, at: usize, len: usize, to: &mut S) {
        for cell in &self.0[level as usize][at..at + len] {
            // SAFETY: as in `fill`.
            cell.with(|from| unsafe { to.take(from, 1) });
        }
    }
}

/// The byte at a position of the stream.
pub fn byte_at(position: u64) -> u8 {
    (position as u8).wrapping_mul(7).wrapping_add(1)
}

/// Gives the stream from a position on.
pub struct Pattern(pub u64);

impl Source for Pattern {
    unsafe fn give(&mut self, to: *mut u8, len: usize) -> usize {
        for i in 0..len {
            // SAFETY: valid for `len` bytes by the contract.
            unsafe { to.add(i).write(byte_at(self.0 + i as u64)) };
        }
        self.0 += len as u64;
        len
    }
}

/// Checks the stream from a position on.
pub struct Check(pub u64);

impl Check {
    pub fn byte(&mut self, byte: u8) {
        assert_eq!(byte, byte_at(self.0), "wrong byte at {}", self.0);
        self.0 += 1;
    }
}

impl Sink for Check {
    unsafe fn take(&mut self, from: *const u8, len: usize) {
        for i in 0..len {
            // SAFETY: valid for `len` bytes by the contract.
            self.byte(unsafe { from.add(i).read() });
        }
    }
}

/// Collects what must be sent again.
pub struct Collect(pub Vec<u8>);

impl Sink for Collect {
    unsafe fn take(&mut self, from: *const u8, len: usize) {
        for i in 0..len {
            // SAFETY: valid for `len` bytes by the contract.
            self.0.push(unsafe { from.add(i).read() });
        }
    }
}
