//! Ring memory that a program works in between two calls: room that it fills before it sends, bytes that it looks at before
//! it takes them.
//!
//! No lock is held meanwhile. What keeps the memory where it is: the connection does not part from its ring pair
//! ([`super::pinned_calls`]), and while there is room out ([`flag::RESERVED`]) its ring gives no memory back. Whether the
//! stream still stands where it stood is checked when the program is done. The other process can write there at any time,
//! so it is never a reference or a slice, and is copied from and to only.

#[cfg(test)]
mod tests;

use std::ops::Range;

use netstack::ring::{Carrier, Sink, Source};

use super::Handle;
use super::pinned_calls::PinnedCall;
use crate::state::record::flag;
use os::pid;

/// A part of a ring: one piece, or two if it goes over the ring's edge.
pub(super) struct Place {
    pub handle: Handle,
    /// Where in the stream it begins, and on which carrier.
    pub start: u64,
    pub carrier: Carrier,
    pieces: [(*mut u8, usize); 2],
    pinned: PinnedCall,
    /// A child of fork has a copy of this, and no part in the memory.
    owner: u32,
}

// SAFETY: the memory is the process's, not the thread's; who works there has this exclusively, or reads.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// Within the critical section in which the ring was looked at.
    pub fn new(handle: Handle, start: u64, carrier: Carrier, found: Finder) -> Place {
        let mut pinned = PinnedCall::default();
        pinned.note(true, handle);
        Place {
            handle,
            start,
            carrier,
            pieces: found.0,
            pinned,
            owner: pid::get(),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.pieces[0].1 + self.pieces[1].1
    }

    pub fn is_ours(&self) -> bool {
        self.owner == pid::get()
    }

    /// Calls `each` with the memory of these bytes, piece by piece, and how many came before.
    ///
    /// # Panics
    /// If they are not all in this place.
    #[inline]
    fn each(&self, range: Range<usize>, mut each: impl FnMut(*mut u8, Range<usize>)) {
        assert!(range.start <= range.end && range.end <= self.len());
        let (first, second) = (self.pieces[0], self.pieces[1]);
        let edge = first.1.clamp(range.start, range.end);
        if range.start < edge {
            // `edge` is not behind the first piece's end.
            each(first.0.wrapping_add(range.start), 0..edge - range.start);
        }
        if edge < range.end {
            let at = second.0.wrapping_add(edge - first.1);
            each(at, edge - range.start..range.end - range.start);
        }
    }

    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.each(at..at + bytes.len(), |to, part| {
            let part = &bytes[part];
            // SAFETY: mapped as long as this lives, by the pin, and so long; nothing of Rust's is there.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len()) };
        });
    }

    #[inline]
    pub fn read(&self, at: usize, room: &mut [u8]) {
        self.each(at..at + room.len(), |from, part| {
            let part = &mut room[part];
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), part.len()) };
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_ours() {
            self.pinned.end();
        }
    }
}

/// Lets the ring say where its memory is; nothing is copied.
#[derive(Default)]
pub(super) struct Finder([(*mut u8, usize); 2]);

impl Finder {
    fn found(&mut self, at: *mut u8, len: usize) {
        let free = usize::from(self.0[0].1 > 0);
        self.0[free] = (at, len);
    }
}

impl Source for Finder {
    unsafe fn give(&mut self, to: *mut u8, len: usize) -> usize {
        self.found(to, len);
        len
    }
}

impl Sink for Finder {
    unsafe fn take(&mut self, from: *const u8, len: usize) {
        self.found(from.cast_mut(), len);
    }
}

/// The (place, length) of a part of the stream before and after the ring's edge.
pub(super) fn around_edge(start: u64, len: usize, size: u64) -> [(usize, usize); 2] {
    let at = (start & (size - 1)) as usize;
    let first = len.min(size as usize - at);
    [(at, first), (0, len - first)]
}

/// Room in a ring, for bytes that are to be sent.
pub struct RingRoom(pub(super) Place);

impl RingRoom {
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// # Panics
    /// If the bytes do not all have room there.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0.write(at, bytes);
    }

    /// What was written, as far as no other process has changed it.
    ///
    /// # Panics
    /// If so many are not there.
    pub fn read(&self, at: usize, room: &mut [u8]) {
        self.0.read(at, room);
    }

    /// Is this the process that has reserved it? A child of fork can do nothing with it.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.0.is_ours()
    }
}

impl Drop for RingRoom {
    fn drop(&mut self) {
        if self.is_ours()
            && let Some(record) = self.0.handle.record_now()
        {
            record.clear(flag::RESERVED);
        }
    }
}

/// What became of the bytes of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    Sent,
    /// They have to go as others do: the connection has changed its carrier, or must now.
    Refused,
    /// Another holder of the connection, after a fork, has sent something, and may have written over them.
    Overtaken,
}

/// Bytes in a ring that have come, and are not taken yet.
pub struct RingView(pub(super) Place);

impl RingView {
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// # Panics
    /// If so many are not there.
    #[inline]
    pub fn read(&self, at: usize, room: &mut [u8]) {
        self.0.read(at, room);
    }
}
