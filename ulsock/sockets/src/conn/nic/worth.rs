//! Is the link worth it? The daemon's and its peer's wake-ups can cost more than kernel TCP, where cores are
//! few; so the connection is measured on both, and the process remembers.
//!
//! The end that connected measures time per message, window by window: on the kernel before it proposes,
//! and on the link. If the link is not faster the connection goes back; when the next one tries is the process's
//! business ([`trials`](super::trials)).

use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};

use super::super::{Conn, send};
use super::trials::TRIALS;
use crate::runtime::process;
use crate::state::record::{Role, flag};
use rendezvous::config::Nic;
use rendezvous::reason::Reason;

/// Messages of a window, there and back together, and the most that it may take, in nanoseconds: a
/// program that pauses measures its pauses.
const WINDOW: u64 = 64;
/// So many windows on the link are compared, the best of them.
const WINDOWS: u64 = 3;
const LONGEST: u64 = 500_000_000;

fn is_asked() -> bool {
    !matches!(process::config().nic, Nic::Daemon | Nic::Inline)
}

impl Conn<'_> {
    /// Nanoseconds per message in a window that has just ended.
    fn measure(&self) -> Option<u64> {
        let count = |counts: &crate::state::record::Counts| counts.messages.load(Ordering::Relaxed);
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
            let best = match kernel.load(Ordering::Relaxed) {
                0 => time,
                // Slowly forgotten: a program changes.
                known => time.min(known + known / 16),
            };
            kernel.store(best, Ordering::Relaxed);
        }
        kernel.load(Ordering::Relaxed) != 0
    }

    /// The last question before a proposal.
    pub(super) fn may_try_link(&self) -> bool {
        !is_asked() || TRIALS.may_try(os::clock::coarse_ms())
    }

    /// Where a call on the link had to wait: goes back, if the kernel was faster.
    pub(in crate::conn) fn judge_link(&self) {
        if !self.is_nic()
            || !self.record.tx.is_on_ring()
            || self.record.role() == Role::Accepted
            || !is_asked()
        {
            return;
        }
        let Some(link) = self.measure() else { return };
        let worth = &self.record.nic.worth;
        // In the first one the two ends still get used to each other.
        let number = worth.windows.fetch_add(1, Ordering::Relaxed);
        if number > 0 {
            worth.link.fetch_min(link, Ordering::Relaxed);
        }
        if number < WINDOWS {
            return;
        }
        let link = worth.link.swap(u64::MAX, Ordering::Relaxed);
        worth.windows.store(1, Ordering::Relaxed);
        let kernel = worth.kernel.load(Ordering::Relaxed);
        // Clearly, for it costs the daemons' time too.
        if link * 10 < kernel * 9 {
            return TRIALS.was_faster();
        }
        self.go_back(link, kernel);
    }

    #[cold]
    fn go_back(&self, link: u64, kernel: u64) {
        TRIALS.was_slower(os::clock::coarse_ms());
        self.record.set(flag::FAIL_OVER);
        send::leave(self);
        self.record.set_reason(Reason::Slower);
        self.record.nic.worth.begin();
        os::log::debug(format_args!(
            "connection {:?} -> {:?} is slower on the link: {link} ns per message there, {kernel} ns by the kernel",
            self.record.local(),
            self.record.peer()
        ));
    }
}
