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
}

in_shared_memory!(UnixCounts {
    sent,
    received,
    agreed,
    comparisons
});

impl UnixCounts {
    pub fn reset(&self) {
        self.put(0, 0);
    }

    /// As counted elsewhere.
    pub fn put(&self, sent: u64, received: u64) {
        self.sent.store(sent, Ordering::Relaxed);
        self.received.store(received, Ordering::Relaxed);
        self.agreed.store(0, Ordering::Relaxed);
        self.comparisons.store(0, Ordering::Relaxed);
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
}
