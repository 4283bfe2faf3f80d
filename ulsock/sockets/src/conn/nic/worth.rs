//! Is the link worth it? Who serves it, daemons or a thread of the program, can cost more than kernel TCP, where cores
//! are few or busy; so the connection is measured on both, and the process remembers.
//!
//! The end that connected measures time and CPU time per message, window by window: on the kernel before it proposes,
//! and on the link. If the link is not faster, or takes much more CPU time, the connection goes back; when the next one
//! tries is the process's business ([`trials`](super::trials)). If it is faster it stays, and after a while the kernel
//! is measured once more: what was true when both were measured need not be true any more.

use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};

use super::super::{Conn, send};
use super::trials::TRIALS;
use crate::runtime::process;
use crate::state::record::{Counts, PerMessage, Record, Role, flag};
use rendezvous::config::Nic;
use rendezvous::reason::Reason;

/// Messages of a window, there and back together.
const WINDOW: u64 = 64;
/// So many windows are compared, the best of them. In one before, the two ends still get used to each other.
const WINDOWS: u64 = 3;
/// The most that a window may take, in nanoseconds: a program that pauses measures its pauses.
const LONGEST: u64 = 500_000_000;

/// The program leaves it to us.
pub fn is_asked() -> bool {
    !matches!(process::config().nic, Nic::Daemon | Nic::Inline)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Clearly faster, and for not much more.
fn is_better(link: PerMessage, kernel: PerMessage) -> bool {
    link.time * 10 < kernel.time * 9 && link.cpu * 4 <= kernel.cpu * 5
}

/// What a message of the window that has just ended has cost.
fn measure(record: &Record) -> Option<PerMessage> {
    let count = |counts: &Counts| counts.messages.load(Ordering::Relaxed);
    let messages = count(&record.tx.counts) + count(&record.rx.counts);
    let worth = &record.nic.worth;
    let begin = worth.messages.load(Ordering::Relaxed);
    let at = worth.at.load(Ordering::Relaxed);
    if at != 0 && messages < begin + WINDOW {
        return None;
    }
    let now = nanoseconds(ClockId::Monotonic);
    let cpu = nanoseconds(ClockId::ProcessCPUTime);
    worth.at.store(now, Ordering::Relaxed);
    worth.messages.store(messages, Ordering::Relaxed);
    let cpu = cpu.saturating_sub(worth.cpu_at.swap(cpu, Ordering::Relaxed));
    let time = now.saturating_sub(at);
    (at != 0 && time < LONGEST).then(|| PerMessage {
        time: time / (messages - begin),
        cpu: cpu / (messages - begin),
    })
}

/// At a look at a plain connection that the daemon could be shown: why not now, if so. Until its end that connected has
/// been measured on plain kernel TCP, which nobody manages, it is that.
pub fn stays_plain(record: &Record) -> Option<Reason> {
    if !is_asked() || record.role() == Role::Accepted {
        return None;
    }
    let worth = &record.nic.worth;
    if let Some(window) = measure(record) {
        match worth.windows.fetch_add(1, Ordering::Relaxed) {
            0 => worth.kernel.forget(),
            _ => worth.kernel.note(window),
        }
    }
    if worth.windows.load(Ordering::Relaxed) <= WINDOWS {
        return Some(Reason::Young);
    }
    let may_try = TRIALS.may_try(os::clock::coarse_ms());
    (!may_try).then_some(Reason::Slower)
}

impl Conn<'_> {
    /// Where a call on the link had to wait: goes back, if the kernel was better.
    pub(in crate::conn) fn judge_link(&self) {
        if !self.is_nic()
            || !self.record.tx.is_on_ring()
            || self.record.role() == Role::Accepted
            || !is_asked()
        {
            return;
        }
        let Some(window) = measure(self.record) else {
            return;
        };
        let worth = &self.record.nic.worth;
        let number = worth.windows.fetch_add(1, Ordering::Relaxed);
        if number > 0 {
            worth.link.note(window);
        }
        if number >= WINDOWS {
            worth.windows.store(1, Ordering::Relaxed);
            self.decide();
        }
    }

    #[cold]
    fn decide(&self) {
        let worth = &self.record.nic.worth;
        let Some((link, kernel)) = worth.link.get().zip(worth.kernel.get()) else {
            return;
        };
        worth.link.forget();
        let now = os::clock::coarse_ms();
        let better = is_better(link, kernel);
        match worth.until.load(Ordering::Relaxed) {
            _ if !better => TRIALS.was_slower(now),
            0 => return worth.until.store(TRIALS.was_faster(now), Ordering::Relaxed),
            until if now < until => return,
            // The kernel is measured again.
            _ => {}
        }
        self.go_back(better, link, kernel);
    }

    #[cold]
    fn go_back(&self, better: bool, link: PerMessage, kernel: PerMessage) {
        self.record.set(flag::FAIL_OVER);
        send::leave(self);
        self.record.set_reason(Reason::Slower);
        self.record.nic.worth.begin();
        let why = match better {
            true => "is measured on the kernel again",
            false => "is slower on the link, or takes more CPU time",
        };
        os::log::debug(format_args!(
            "connection {:?} -> {:?} {why}: {} ns per message there, {} ns of CPU time; {} ns and {} ns by the kernel",
            self.record.local(),
            self.record.peer(),
            link.time,
            link.cpu,
            kernel.time,
            kernel.cpu,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(time: u64, cpu: u64) -> PerMessage {
        PerMessage { time, cpu }
    }

    #[test]
    fn a_little_faster_is_not_better() {
        assert!(is_better(cost(89, 100), cost(100, 100)));
        assert!(!is_better(cost(90, 100), cost(100, 100)));
    }

    #[test]
    fn much_more_cpu_time_is_not_better() {
        assert!(is_better(cost(50, 125), cost(100, 100)));
        assert!(!is_better(cost(50, 126), cost(100, 100)));
    }
}
