//! Is the link worth it? The daemon's and its peer's wake-ups can cost more than kernel TCP, where cores are
//! few; so the connection is measured on both, and the process remembers.
//!
//! The end that connected measures time per message, window by window: on the kernel before it proposes,
//! and on the link. If the link is not faster it goes back, and for some time no connection of this
//! process tries again, twice as long each time.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{clock_gettime, ClockId};

use super::super::{send, Conn};
use crate::config::Nic;
use crate::reason::Reason;
use crate::record::{flag, Role};
use crate::{process, upkeep};

/// Messages of a window, there and back together, and the most that it may take, in nanoseconds: a
/// program that pauses measures its pauses.
const WINDOW: u64 = 64;
const LONGEST: u64 = 500_000_000;
/// Milliseconds until the process tries again.
const FIRST_PAUSE: u64 = 1_000;
const LONGEST_PAUSE: u64 = 64_000;

/// Before this time no connection of the process tries the link, and how long that pause is.
static NEXT: AtomicU64 = AtomicU64::new(0);
static PAUSE: AtomicU64 = AtomicU64::new(0);

/// What a connection has measured, in the socket record.
#[derive(Default)]
#[repr(C)]
pub struct Worth {
    /// Where the window began: time and messages.
    at: AtomicU64,
    messages: AtomicU64,
    /// Nanoseconds per message on the kernel in the last window; 0: not known.
    kernel: AtomicU64,
    /// Windows on the link.
    windows: AtomicU64,
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
    }
}

fn is_asked() -> bool {
    process::config().nic == Nic::Auto
}

impl Conn<'_> {
    /// Nanoseconds per message in a window that has just ended.
    fn measure(&self) -> Option<u64> {
        let count = |counts: &crate::record::Counts| counts.messages.load(Ordering::Relaxed);
        let messages = count(&self.record.tx.counts) + count(&self.record.rx.counts);
        let worth = &self.record.nic.worth;
        let begin = worth.messages.load(Ordering::Relaxed);
        let at = worth.at.load(Ordering::Relaxed);
        if at != 0 && messages < begin + WINDOW {
            return None;
        }
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        worth.at.store(now, Ordering::Relaxed);
        worth.messages.store(messages, Ordering::Relaxed);
        let time = now.saturating_sub(at);
        (at != 0 && time < LONGEST).then(|| (time / (messages - begin)).max(1))
    }

    /// Before a send on the kernel: may the link be tried?
    pub(super) fn is_worth_trying(&self) -> bool {
        if !is_asked() {
            return true;
        }
        let kernel = &self.record.nic.worth.kernel;
        if let Some(time) = self.measure() {
            kernel.store(time, Ordering::Relaxed);
        }
        kernel.load(Ordering::Relaxed) != 0 && upkeep::now() >= NEXT.load(Ordering::Relaxed)
    }

    /// Where a call on the link had to wait: goes back, if the kernel was faster.
    pub(in crate::conn) fn judge_link(&self) {
        if !self.is_nic()
            || self.record.tx.carrier.load(Ordering::Relaxed) == 0
            || self.record.role() == Role::Accepted
            || !is_asked()
        {
            return;
        }
        let Some(link) = self.measure() else { return };
        let worth = &self.record.nic.worth;
        // In the first one the two ends still get used to each other.
        if worth.windows.fetch_add(1, Ordering::Relaxed) == 0 {
            return;
        }
        let kernel = worth.kernel.load(Ordering::Relaxed);
        if link < kernel {
            PAUSE.store(0, Ordering::Relaxed);
            return;
        }
        self.go_back(link, kernel);
    }

    #[cold]
    fn go_back(&self, link: u64, kernel: u64) {
        let pause = (2 * PAUSE.load(Ordering::Relaxed)).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        PAUSE.store(pause, Ordering::Relaxed);
        NEXT.store(upkeep::now() + pause, Ordering::Relaxed);
        self.record.set(flag::FAIL_OVER);
        send::leave(self);
        self.record.set_reason(Reason::Slower);
        self.record.nic.worth.begin();
        crate::log::debug(format_args!(
            "connection {:?} -> {:?} is slower on the link: {link} ns per message there, {kernel} ns by the kernel",
            self.record.local(),
            self.record.peer()
        ));
    }
}
