//! Frames that wait to leave, and which of them can leave in one call.

use std::boxed::Box;
use std::vec;

/// Frames that can wait.
pub const SLOTS: usize = 64;
/// The most that one call sends: what a datagram may be long (less its headers), and the kernel's
/// UDP_MAX_SEGMENTS (include/linux/udp.h), which was 64 before it became more.
const MOST_BYTES: usize = 65_000;
const MOST_SEGMENTS: usize = 64;

/// What is known of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parcel {
    /// The number of the socket that it leaves by.
    pub socket: usize,
    /// ECN's bits.
    pub service: u8,
    /// Where the datagram's bytes begin in the slot, and how many they are.
    pub at: usize,
    pub length: usize,
}

impl Parcel {
    /// Whether `next` can be cut off one and the same large datagram, behind this one.
    fn goes_with(&self, next: &Parcel) -> bool {
        (self.socket, self.service) == (next.socket, next.service) && next.length <= self.length
    }
}

#[derive(Debug)]
pub struct Outbox {
    /// Slot after slot.
    memory: Box<[u8]>,
    stride: usize,
    parcels: Box<[Parcel; SLOTS]>,
    first: usize,
    count: usize,
}

impl Outbox {
    /// For frames of this length. Pages of it that are never used are never there.
    pub fn new(frame: usize) -> Outbox {
        // Not a power of two: the beginnings of all slots would share a few lines of the cache.
        let stride = frame.next_multiple_of(64) | 64;
        Outbox {
            memory: vec![0; stride * SLOTS].into_boxed_slice(),
            stride,
            parcels: Box::new([Parcel::default(); SLOTS]),
            first: 0,
            count: 0,
        }
    }

    /// Where the next frame is to be written.
    #[inline]
    pub fn slot(&mut self, length: usize) -> Option<&mut [u8]> {
        let at = self.next()? * self.stride;
        self.memory.get_mut(at..at + length)
    }

    /// What has been written there.
    #[inline]
    pub fn written(&self, length: usize) -> Option<&[u8]> {
        let at = self.next()? * self.stride;
        self.memory.get(at..at + length)
    }

    /// The number of the slot for the next frame.
    fn next(&self) -> Option<usize> {
        (self.count < SLOTS).then_some((self.first + self.count) % SLOTS)
    }

    /// The next frame is written.
    pub fn add(&mut self, parcel: Parcel) {
        if let Some(next) = self.next() {
            self.parcels[next] = parcel;
            self.count += 1;
        }
    }

    fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        (self.first..self.first + self.count).map(|number| number % SLOTS)
    }

    /// How many of the frames that wait, from the first one on, can leave in one call, and the first one.
    pub fn run(&self) -> Option<(Parcel, usize)> {
        let first = self.parcels[self.numbers().next()?];
        let (mut last, mut bytes, mut count) = (first, first.length, 1);
        for number in self.numbers().skip(1).take(MOST_SEGMENTS - 1) {
            let next = self.parcels[number];
            bytes += next.length;
            // All but the last are of one length.
            let fits = last.length == first.length && first.goes_with(&next);
            // An empty datagram cannot be cut off another.
            if !fits || bytes > MOST_BYTES || next.length == 0 {
                break;
            }
            (last, count) = (next, count + 1);
        }
        Some((first, count))
    }

    /// The datagrams of the first `count` frames, for the kernel to read.
    pub fn pieces(&self, count: usize, into: &mut [libc::iovec; SLOTS]) -> usize {
        let numbers = self.numbers().take(count);
        let pieces = numbers.zip(into.iter_mut()).map(|(number, piece)| {
            let parcel = &self.parcels[number];
            let start = number * self.stride + parcel.at;
            let bytes = &self.memory[start..start + parcel.length];
            *piece = libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
        });
        pieces.count()
    }

    /// The first ones have left, or are lost.
    pub fn remove(&mut self, count: usize) {
        let count = count.min(self.count);
        self.count -= count;
        self.first = match self.count {
            // The slots that were used last are still in the cache.
            0 => 0,
            _ => (self.first + count) % SLOTS,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of the runs that these frames leave in: socket, ECN's bits, length.
    fn runs(frames: &[(usize, u8, usize)]) -> std::vec::Vec<usize> {
        let at_start = runs_from(0, frames);
        assert_eq!(runs_from(40, frames), at_start, "round the end of the ring");
        at_start
    }

    fn runs_from(shift: usize, frames: &[(usize, u8, usize)]) -> std::vec::Vec<usize> {
        let mut outbox = Outbox::new(65_600);
        outbox.first = shift;
        for &(socket, service, length) in frames {
            outbox.add(Parcel {
                socket,
                service,
                at: 42,
                length,
            });
        }
        let mut found = vec![];
        while let Some((_, count)) = outbox.run() {
            let mut pieces = [super::super::NO_PIECE; SLOTS];
            assert_eq!(outbox.pieces(count, &mut pieces), count);
            found.push(count);
            outbox.remove(count);
        }
        found
    }

    #[test]
    fn frames_of_one_kind_leave_together() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[(0, 0, 100); 5]), [5]);
        assert_eq!(runs(&[(0, 0, 100), (0, 0, 100), (0, 0, 50)]), [3]);
        // Behind a shorter one nothing can be.
        assert_eq!(runs(&[(0, 0, 100), (0, 0, 50), (0, 0, 50)]), [2, 1]);
        assert_eq!(runs(&[(0, 0, 50), (0, 0, 100)]), [1, 1]);
        assert_eq!(
            runs(&[(0, 0, 9), (1, 0, 9), (1, 2, 9), (1, 2, 9)]),
            [1, 1, 2]
        );
        assert_eq!(runs(&[(0, 0, 9), (0, 0, 0), (0, 0, 0)]), [1, 1, 1]);
    }

    #[test]
    fn no_call_sends_more_than_a_datagram_can_be() {
        assert_eq!(runs(&[(0, 0, 1472); 64]), [44, 20]);
        assert_eq!(runs(&[(0, 0, 8972); 10]), [7, 3]);
        assert_eq!(runs(&[(0, 0, 65_507); 2]), [1, 1]);
        assert_eq!(runs(&[(0, 0, 20); 64]), [64]);
    }

    #[test]
    fn slots_are_as_many_as_they_are() {
        let mut outbox = Outbox::new(100);
        for _ in 0..SLOTS {
            assert_eq!(outbox.slot(100).map(|slot| slot.len()), Some(100));
            outbox.add(Parcel::default());
        }
        assert!(outbox.slot(100).is_none());
        outbox.add(Parcel::default());
        outbox.remove(SLOTS + 1);
        assert!(outbox.run().is_none() && outbox.slot(100).is_some());
    }
}
