//! What has gone through a Unix socket since it became an end of a connection. The kernel counts the bytes of a TCP
//! connection and not those of this one, so each end counts its own, and the two compare before they rely on it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use netstack::in_shared_memory;

use crate::runtime::way::Way;

#[derive(Default)]
#[repr(C)]
pub struct UnixCounts {
    sent: AtomicU64,
    received: AtomicU64,
    /// Both ends have found the same in our sending direction.
    agreed: AtomicU32,
    /// How often they were compared.
    comparisons: AtomicU32,
    /// The bytes that were missing at the last comparison, where the receiver stood then, and at how many comparisons it
    /// was the same number.
    missing: AtomicU64,
    read: AtomicU64,
    alike: AtomicU32,
}

in_shared_memory!(UnixCounts {
    sent,
    received,
    agreed,
    comparisons,
    missing,
    read,
    alike
});

impl UnixCounts {
    pub fn reset(&self) {
        self.put(Some(0), Some(0));
    }

    /// As counted elsewhere, each direction that was: in the other one calls may be about to add what they have moved.
    pub fn put(&self, sent: Option<u64>, received: Option<u64>) {
        for (count, elsewhere) in [(&self.sent, sent), (&self.received, received)] {
            if let Some(bytes) = elsewhere {
                count.store(bytes, Ordering::Relaxed);
            }
        }
        self.agreed.store(0, Ordering::Relaxed);
        self.comparisons.store(0, Ordering::Relaxed);
        self.alike.store(0, Ordering::Relaxed);
    }

    /// Several threads may be in kernel calls at once.
    pub fn add(&self, way: Way, bytes: u64) {
        let count = match way {
            Way::Out => &self.sent,
            Way::In => &self.received,
        };
        count.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn have_agreed(&self) -> bool {
        self.agreed.load(Ordering::Relaxed) != 0
    }

    pub fn agree(&self) {
        self.agreed.store(1, Ordering::Relaxed);
    }

    /// One more comparison: how many there were before.
    pub fn compare(&self) -> u32 {
        self.comparisons.fetch_add(1, Ordering::Relaxed)
    }

    /// A comparison has found so many bytes missing, with the receiver at `read`; at how many it was the same number. A
    /// receiver that stands where it stood may still be in the same receive. Under the lock of the sending direction.
    pub fn note_shortage(&self, missing: u64, read: u64) -> u32 {
        let (same, order) = (self.missing.load(Ordering::Relaxed), Ordering::Relaxed);
        let alike = match self.alike.load(order) {
            0 => 1,
            _ if missing != same => 1,
            alike if self.read.load(order) == read => alike,
            alike => alike.saturating_add(1),
        };
        self.missing.store(missing, order);
        self.read.store(read, order);
        self.alike.store(alike, order);
        alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that is inside adds what it has moved, whenever.
    #[test]
    fn a_direction_that_was_counted_here_goes_on() {
        let counts = UnixCounts::default();
        counts.add(Way::In, 3);
        counts.put(Some(7), None);
        counts.add(Way::In, 4);
        assert_eq!((counts.sent(), counts.received()), (7, 7));
    }

    #[test]
    fn a_shortage_is_the_same_while_the_receiver_reads_on() {
        let counts = UnixCounts::default();
        let found = [
            (1, 10),
            (1, 10),
            (1, 11),
            (1, 12),
            (2, 13),
            (2, 13),
            (1, 14),
        ];
        let alike = found.map(|(missing, read)| counts.note_shortage(missing, read));
        assert_eq!(alike, [1, 1, 2, 3, 1, 1, 1]);
    }
}
