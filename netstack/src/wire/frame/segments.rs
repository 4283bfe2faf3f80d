//! Frames of one size to one place as hardware joins and cuts them (UDP segmentation, and its counterpart when
//! receiving: Documentation/networking/segmentation-offloads.rst): one set of headers, the payloads one behind the
//! other, the last of them perhaps shorter.
//!
//! Nothing is copied but headers: those of a frame are written over the end of the payload before it, which nobody
//! needs any more when one is cut off, and which whoever adds one puts back.

use core::ops::Range;

use super::outline::{LONGEST, Outline};

/// A frame of several that is being cut up, and what is left of it.
#[derive(Clone, Debug)]
pub struct Segments {
    outline: Outline,
    headers: [u8; LONGEST],
    /// Of each payload but the last.
    size: usize,
    /// Where the next payload begins, and the last one ends.
    next: usize,
    end: usize,
}

impl Segments {
    /// `None` if it is not such a frame, or no segment of it would have anything.
    pub fn of(frame: &[u8], size: usize) -> Option<Segments> {
        let outline = Outline::of(frame)?;
        let overhead = outline.overhead();
        let mut headers = [0; LONGEST];
        headers[..overhead].copy_from_slice(frame.get(..overhead)?);
        (size > 0 && frame.len() > overhead).then_some(Segments {
            outline,
            headers,
            size,
            next: overhead,
            end: frame.len(),
        })
    }

    /// Bytes of the longest frame that comes out.
    pub fn longest(&self) -> usize {
        let overhead = self.outline.overhead();
        overhead + self.size.min(self.end - overhead)
    }

    /// Cuts the next frame off, in place: where it is. `frame` is the frame that all this is of.
    pub fn cut(&mut self, frame: &mut [u8]) -> Option<Range<usize>> {
        let length = self.size.min(self.end - self.next);
        if length == 0 {
            return None;
        }
        let overhead = self.outline.overhead();
        let start = self.next - overhead;
        let place = frame.get_mut(start..self.next + length)?;
        place[..overhead].copy_from_slice(&self.headers[..overhead]);
        self.outline.set_length(place, length)?;
        self.outline.count_identification(&mut self.headers);
        self.next += length;
        Some(start..self.next)
    }
}

/// The longest frame of several, below what any driver says it takes at once (a few take less than 64 KiB), and how
/// many it is (UDP_MAX_SEGMENTS of linux/udp.h, as it was at first).
const MOST_BYTES: usize = 60_000;
const MOST_FRAMES: usize = 64;

/// A frame that others can be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    outline: Outline,
    /// Of each payload but the last.
    size: usize,
    count: usize,
    /// The last was shorter: none can follow.
    complete: bool,
}

impl Joined {
    /// `None` if its checksum is not left to the port: hardware would compute another one.
    #[inline]
    pub fn of(frame: &[u8]) -> Option<Joined> {
        let outline = Outline::of(frame)?;
        let size = frame.len() - outline.overhead();
        outline.is_open(frame).then_some(Joined {
            outline,
            size,
            count: 1,
            // The headers of the next one would be written over its own.
            complete: size < outline.overhead(),
        })
    }

    pub fn outline(&self) -> Outline {
        self.outline
    }

    /// Bytes of payload of each frame, if there are several.
    pub fn segment(&self) -> Option<usize> {
        (self.count > 1).then_some(self.size)
    }

    /// Whether `frame` can follow behind `first`, which all this is of and is `length` bytes long by now.
    #[inline]
    fn takes(&self, first: &[u8], length: usize, frame: &[u8]) -> bool {
        let outline = self.outline;
        let payload = frame.len().saturating_sub(outline.overhead());
        (1..=self.size).contains(&payload)
            && length + payload <= MOST_BYTES
            && Outline::of(frame) == Some(outline)
            && outline.is_open(frame)
            && outline.is_same_way(first, frame)
    }

    /// Whether anything can follow.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.complete || self.count == MOST_FRAMES
    }

    /// Adds the frame that begins `overhead` bytes before the end of `first`, the first `length` of `bytes`. `false`:
    /// it cannot follow, and nothing has changed.
    #[inline]
    pub fn add(&mut self, bytes: &[u8], length: usize, frame: Range<usize>) -> bool {
        let (Some(first), Some(frame)) = (bytes.get(..length), bytes.get(frame)) else {
            return false;
        };
        if self.is_complete() || !self.takes(first, length, frame) {
            return false;
        }
        self.count += 1;
        self.complete = frame.len() - self.outline.overhead() < self.size;
        true
    }

    /// Makes the headers at the front those of all, which are so many bytes with them.
    pub fn close(&self, bytes: &mut [u8], length: usize) {
        if self.count > 1 {
            let payload = length.saturating_sub(self.outline.overhead());
            let _ = self.outline.set_length(bytes, payload);
        }
    }
}
