//! Whether the link to another host is worth it, as far as a connection has measured.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a connection has measured, in the socket record.
#[derive(Default)]
#[repr(C)]
pub struct Worth {
    /// Where the window began: time and messages.
    pub at: AtomicU64,
    pub messages: AtomicU64,
    /// Nanoseconds per message on the kernel, the least of some windows; 0: not known.
    pub kernel: AtomicU64,
    /// Windows on the link, and the least of them.
    pub windows: AtomicU64,
    pub link: AtomicU64,
}

impl Worth {
    pub fn reset(&self) {
        for word in [&self.at, &self.messages, &self.kernel, &self.windows] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// On the other carrier from now on.
    pub fn begin(&self) {
        self.at.store(0, Ordering::Relaxed);
        self.windows.store(0, Ordering::Relaxed);
        self.link.store(u64::MAX, Ordering::Relaxed);
    }
}
