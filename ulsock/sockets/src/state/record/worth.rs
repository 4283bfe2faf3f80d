//! Whether the link to another host is worth it, as far as a connection has measured.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a message costs, there or back, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerMessage {
    pub time: u64,
    /// Of the whole process.
    pub cpu: u64,
}

/// The least of some windows.
#[derive(Default)]
#[repr(C)]
pub struct Least {
    time: AtomicU64,
    cpu: AtomicU64,
}

/// What a connection has measured, in the socket record.
#[derive(Default)]
#[repr(C)]
pub struct Worth {
    /// Where the window began: time, CPU time and messages.
    pub at: AtomicU64,
    pub cpu_at: AtomicU64,
    pub messages: AtomicU64,
    /// Windows since the last change of carriers.
    pub windows: AtomicU64,
    pub kernel: Least,
    pub link: Least,
    /// When kernel TCP is measured again, in milliseconds; 0: the link has not been faster yet.
    pub until: AtomicU64,
}

impl Least {
    /// `None`: nothing has been measured.
    pub fn get(&self) -> Option<PerMessage> {
        let time = self.time.load(Ordering::Relaxed);
        let cpu = self.cpu.load(Ordering::Relaxed);
        (time != 0).then_some(PerMessage { time, cpu })
    }

    pub fn note(&self, new: PerMessage) {
        let least = self.get().unwrap_or(new);
        self.time
            .store(least.time.min(new.time).max(1), Ordering::Relaxed);
        self.cpu.store(least.cpu.min(new.cpu), Ordering::Relaxed);
    }

    pub fn forget(&self) {
        self.time.store(0, Ordering::Relaxed);
    }
}

impl Worth {
    pub fn reset(&self) {
        self.begin();
        self.kernel.forget();
    }

    /// On the other carrier from now on.
    pub fn begin(&self) {
        for word in [&self.at, &self.windows, &self.until] {
            word.store(0, Ordering::Relaxed);
        }
        self.link.forget();
    }
}
