//! Frames that wait to be sent, in memory of ours: one behind the other, and those that can leave as one frame joined.

use std::ops::Range;
use std::vec;
use std::vec::Vec;

use crate::wire::frame::{ETHERNET, Joined, LONGEST};

/// Room for so many of the largest frames, and so many bytes at least: of what an engine sends at once, and of some
/// joined frames.
const LARGEST_FRAMES: usize = 64;
const LEAST: usize = 1 << 17;

/// A frame, or several that are joined.
#[derive(Clone, Copy, Debug)]
pub struct Parcel {
    pub start: usize,
    pub length: usize,
    /// If its checksum is to be completed.
    pub joined: Option<Joined>,
}

impl Parcel {
    /// The frame at a place in memory, alone.
    pub fn new(memory: &[u8], place: Range<usize>) -> Parcel {
        Parcel {
            start: place.start,
            length: place.len(),
            joined: memory.get(place).and_then(Joined::of),
        }
    }
}

/// The slot that was lent, where it lies on the end of the last parcel.
#[derive(Debug)]
struct Overlap {
    length: usize,
    /// What was there.
    bytes: [u8; LONGEST],
}

#[derive(Debug)]
pub struct Outbox {
    memory: Vec<u8>,
    /// Bytes of the largest frame.
    largest: usize,
    /// At most so many.
    most: usize,
    parcels: Vec<Parcel>,
    /// Those before have left.
    first: usize,
    overlap: Option<Overlap>,
    /// Whether frames are joined.
    pub joins: bool,
    /// Whether checksums are completed.
    pub completes: bool,
}

impl Outbox {
    /// For so many parcels of frames of this length.
    pub fn new(largest: usize, parcels: usize) -> Outbox {
        Outbox {
            memory: vec![0; (largest * LARGEST_FRAMES).max(LEAST)],
            largest,
            most: parcels,
            parcels: Vec::with_capacity(parcels),
            first: 0,
            overlap: None,
            joins: false,
            completes: false,
        }
    }

    /// Those that wait, and the memory that they are in.
    pub fn waiting(&self) -> (&[Parcel], &[u8]) {
        (&self.parcels[self.first..], &self.memory)
    }

    pub fn is_empty(&self) -> bool {
        self.first == self.parcels.len()
    }

    /// The first that waits.
    pub fn first(&self) -> Option<Parcel> {
        self.parcels.get(self.first).copied()
    }

    /// The bytes of a parcel, to be changed.
    pub fn bytes(&mut self, parcel: &Parcel) -> &mut [u8] {
        &mut self.memory[parcel.start..parcel.start + parcel.length]
    }

    /// Where the last parcel ends.
    fn end(&self) -> usize {
        self.parcels
            .last()
            .map_or(0, |last| last.start + last.length)
    }

    /// Where the next frame is written: if it may be joined to the last one, so that its payload is behind that one's.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        if self.parcels.len() == self.most {
            return None;
        }
        let (end, largest) = (self.end(), self.largest);
        // Also if it has to be moved away from what it lies on.
        if self.memory.len() - end < largest + LONGEST {
            return None;
        }
        let start = match &self.overlap {
            Some(overlap) => end - overlap.length,
            None => end - self.lay_over(end),
        };
        Some(&mut self.memory[start..start + largest])
    }

    /// How many bytes of the last parcel the next slot lies on; they are kept.
    #[inline]
    fn lay_over(&mut self, end: usize) -> usize {
        let open = |joined: &Joined| !joined.is_complete();
        let last = self.parcels.last().filter(|_| self.joins);
        let Some(joined) = last.and_then(|last| last.joined).filter(open) else {
            return 0;
        };
        let length = joined.outline().overhead();
        let mut bytes = [0; LONGEST];
        bytes[..length].copy_from_slice(&self.memory[end - length..end]);
        self.overlap = Some(Overlap { length, bytes });
        length
    }

    /// What the slot lay on is as it was. Where that is.
    fn put_back(&mut self) -> usize {
        let end = self.end();
        if let Some(overlap) = self.overlap.take() {
            let kept = &overlap.bytes[..overlap.length];
            self.memory[end - overlap.length..end].copy_from_slice(kept);
        }
        end
    }

    /// The first `length` bytes of the slot are a frame. `false`: that cannot be.
    pub fn commit(&mut self, length: usize) -> bool {
        let is_possible = (ETHERNET..=self.largest).contains(&length);
        if !is_possible || self.slot().is_none() {
            return false;
        }
        if !self.join(length) {
            self.add(length);
        }
        true
    }

    /// Adds the frame in the slot to the last parcel, if it can follow there.
    fn join(&mut self, length: usize) -> bool {
        let Some(overlap) = self.overlap.as_ref().map(|overlap| overlap.length) else {
            return false;
        };
        let Some(last) = self.parcels.last_mut() else {
            return false;
        };
        let begin = last.length - overlap;
        let bytes = &self.memory[last.start..];
        let joined = last.joined.as_mut();
        if !joined.is_some_and(|joined| joined.add(bytes, last.length, begin..begin + length)) {
            return false;
        }
        self.put_back();
        if let Some(last) = self.parcels.last_mut() {
            last.length += length - overlap;
        }
        true
    }

    /// The frame in the slot becomes a parcel.
    fn add(&mut self, length: usize) {
        let end = self.end();
        if let Some(overlap) = &self.overlap {
            let from = end - overlap.length;
            self.memory.copy_within(from..from + length, end);
            self.put_back();
        }
        let completes = self.completes;
        let frame = &self.memory[end..end + length];
        let joined = if completes { Joined::of(frame) } else { None };
        self.parcels.push(Parcel {
            start: end,
            length,
            joined,
        });
    }

    /// All is ready to be sent.
    pub fn close(&mut self) {
        self.put_back();
        for at in self.first..self.parcels.len() {
            let Parcel {
                start,
                length,
                joined,
            } = self.parcels[at];
            if let Some(joined) = joined {
                joined.close(&mut self.memory[start..start + length], length);
            }
        }
    }

    /// So many have left.
    pub fn leave(&mut self, count: usize) {
        self.first = (self.first + count).min(self.parcels.len());
        if self.is_empty() {
            self.parcels.clear();
            self.first = 0;
        }
    }
}
