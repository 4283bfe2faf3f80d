//! Ring memory on the heap that refuses every access outside of it, and a stream whose bytes depend
//! on their position.

use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::{Memory, Sink, Source};
use std::cell::UnsafeCell;

/// The rings of the levels below [`MAPPED`], as a segment of that size would have them.
pub struct Heap(Vec<Box<[UnsafeCell<u8>]>>);

/// Levels that have memory here.
pub const MAPPED: usize = 3;

// SAFETY: what is read and written at the same time is the protocol's business, as in a segment.
unsafe impl Sync for Heap {}

impl Heap {
    pub fn new() -> Heap {
        Heap(
            LEVEL_SIZE[..MAPPED]
                .iter()
                .map(|size| ring(*size))
                .collect(),
        )
    }

    /// Panics for what lies outside; a level that a hostile peer invents has no memory.
    fn piece(&self, level: u8, at: usize, len: usize) -> Option<*mut u8> {
        let size = LEVEL_SIZE[level as usize] as usize;
        assert!(len <= size && at <= size - len, "{at}+{len} in {size}");
        let ring = self.0.get(level as usize)?;
        Some(UnsafeCell::raw_get(ring[at..].as_ptr()))
    }
}

fn ring(size: u64) -> Box<[UnsafeCell<u8>]> {
    let bytes = Box::into_raw(vec![0u8; size as usize].into_boxed_slice());
    // SAFETY: the same allocation; an `UnsafeCell` has the layout of what is in it.
    unsafe { Box::from_raw(bytes as *mut [UnsafeCell<u8>]) }
}

impl Memory for Heap {
    fn fill<S: Source + ?Sized>(&self, level: u8, at: usize, len: usize, from: &mut S) -> usize {
        // SAFETY: `piece` has checked that `len` bytes are there.
        self.piece(level, at, len)
            .map_or(0, |to| unsafe { from.give(to, len) })
    }

    fn drain<S: Sink + ?Sized>(&self, level: u8, at: usize, len: usize, to: &mut S) {
        if let Some(from) = self.piece(level, at, len) {
            // SAFETY: `piece` has checked that `len` bytes are there.
            unsafe { to.take(from, len) };
        }
    }
}

/// The stream repeats after a prime number of bytes, so that a ring's size off is seen.
const PERIOD: u64 = 251;

/// The stream's bytes from `position` on.
pub fn stream(position: u64, len: u64) -> Vec<u8> {
    let period: Vec<u8> = (0..PERIOD as u8).collect();
    let from = (position % PERIOD) as usize;
    let mut bytes = period.repeat((len / PERIOD) as usize + 2);
    bytes.truncate(from + len as usize);
    bytes.split_off(from)
}
