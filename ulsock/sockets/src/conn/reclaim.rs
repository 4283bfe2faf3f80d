//! Upkeep: memory that is not needed any more goes back to the system, some time after it was.
//!
//! There is no thread and no timer for it. Whoever goes to sleep, or has slept, looks if a look is
//! due; and while there is anything to look after, one sleeper of the process gets up when it will
//! be. A look takes no lock that it would have to wait for, and allocates nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::conn::nic;
use crate::conn::shrink::{self, LeftToShrink};
use crate::runtime::deadline::Deadline;
use crate::runtime::process;
use crate::runtime::reclaim_timer::{DUE, PAUSE, PAUSED, RETIRED, replace_due, wanted};
use crate::runtime::thread::{self, Thread};
use crate::state::control::Locked;
use crate::state::process_group::RECORDS;
use os::clock::coarse_ms;

/// Where nothing happens between two looks, the next one comes after twice the time, up to this.
const LONGEST_PAUSE: u64 = 1 << 22;
/// Giving 5 MiB back takes some 0.2 ms: no more than so many at one look, the rest soon after.
const AT_ONCE: usize = 4;
const SOON: u64 = 20;

os::process_wide! {
    /// Connections whose rings have grown, by record number.
    static LARGE: [AtomicU64; RECORDS / 64] = [const { AtomicU64::new(0) }; RECORDS / 64];
    /// The look for which a sleeper gets up.
    static AWAITED: AtomicU64 = AtomicU64::new(0);
}

/// A ring of this record's connection has grown.
pub fn has_grown(number: u32) {
    remember(number);
    wanted();
}

fn is_wanted() -> bool {
    RETIRED.load(Ordering::SeqCst) || numbers().next().is_some()
}

fn word(number: u32) -> (&'static AtomicU64, u64) {
    (
        &LARGE[number as usize / 64 % LARGE.len()],
        1 << (number % 64),
    )
}

fn remember(number: u32) {
    let (word, bit) = word(number);
    word.fetch_or(bit, Ordering::SeqCst);
}

fn forget(number: u32) {
    let (word, bit) = word(number);
    word.fetch_and(!bit, Ordering::SeqCst);
}

fn numbers() -> impl Iterator<Item = u32> {
    LARGE.iter().zip(0u32..).flat_map(|(word, index)| {
        let bits = word.load(Ordering::SeqCst);
        let set = (0..64).filter(move |bit| bits & 1 << bit != 0);
        set.map(move |bit| index * 64 + bit)
    })
}

/// Looks, if it is time.
#[inline]
pub fn look_if_due() {
    let due = DUE.load(Ordering::Relaxed);
    if due != 0 && coarse_ms() >= due {
        look(due);
    }
}

#[cold]
fn look(due: u64) {
    // Under a seccomp filter every system call may be the last.
    if !process::is_on() {
        return;
    }
    let mut next = coarse_ms() + PAUSE;
    if DUE
        .compare_exchange(due, next, Ordering::SeqCst, Ordering::Relaxed)
        .is_err()
    {
        return;
    }
    let (mut given_back, mut busy) = (0, false);
    for number in numbers() {
        if given_back == AT_ONCE {
            next = replace_due(next, coarse_ms() + SOON);
            break;
        }
        // First this: a growth that comes meanwhile is remembered anew.
        forget(number);
        match shrink::after_use(number) {
            LeftToShrink::Nothing { given_back: some } => given_back += usize::from(some),
            LeftToShrink::InUse => {
                busy = true;
                remember(number);
            }
            LeftToShrink::Unread => remember(number),
        }
    }
    drop_retired();
    if nic::look_after() {
        replace_due(next, coarse_ms() + nic::LOOK);
        return;
    }
    if given_back == 0 {
        let pause = match busy {
            true => PAUSE,
            false => (PAUSED.load(Ordering::Relaxed) * 2).min(LONGEST_PAUSE),
        };
        PAUSED.store(pause, Ordering::Relaxed);
        next = replace_due(next, coarse_ms() + pause);
    }
    rest_if_nothing_is_left(next);
}

fn rest_if_nothing_is_left(due: u64) {
    // What came at this very moment found that a look was due already.
    if !is_wanted() && replace_due(due, 0) == 0 && is_wanted() {
        wanted();
    }
}

/// Not within a critical section: a thread must not drop what
/// it is looking at itself; nor in a signal handler, which must not free memory.
fn drop_retired() {
    let may = Thread::me().is_some_and(|me| !me.in_critical() && !me.in_handler());
    if !may || !RETIRED.load(Ordering::Relaxed) {
        return;
    }
    if let Some(mut locked) = Locked::take() {
        let left = locked
            .control()
            .is_some_and(|control| !control.drop_retired());
        RETIRED.store(left, Ordering::SeqCst);
    }
}

/// A sleep that may have to end for the next look.
pub struct ReclaimTimer {
    due: u64,
}

impl ReclaimTimer {
    /// Before a thread lies down on a connection. The kernel keeps what a sleeper waits for, even if
    /// another thread closes its number; who gets up and lies down again finds it gone. So only a
    /// thread that is alone does.
    #[inline]
    pub fn on_connection() -> ReclaimTimer {
        nic::before_sleep();
        if DUE.load(Ordering::Relaxed) == 0 || thread::is_alone() {
            return ReclaimTimer::begin();
        }
        look_if_due();
        ReclaimTimer { due: 0 }
    }

    /// Before a thread lies down.
    #[inline]
    pub fn begin() -> ReclaimTimer {
        nic::before_sleep();
        if DUE.load(Ordering::Relaxed) == 0 {
            return ReclaimTimer { due: 0 };
        }
        ReclaimTimer::while_something_is_due()
    }

    #[cold]
    fn while_something_is_due() -> ReclaimTimer {
        look_if_due();
        let (due, awaited) = (DUE.load(Ordering::Relaxed), AWAITED.load(Ordering::Relaxed));
        let mine = due != 0
            && due != awaited
            && AWAITED
                .compare_exchange(awaited, due, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        ReclaimTimer {
            due: if mine { due } else { 0 },
        }
    }

    /// When the sleep has to end.
    #[inline]
    pub fn limit(&self, deadline: Deadline) -> Deadline {
        if self.due == 0 {
            return deadline;
        }
        // A tick more: the clock of `now` is a coarse one.
        let left = self.due.saturating_sub(coarse_ms()) + 10;
        Deadline::after(Duration::from_millis(left)).min(deadline)
    }

    /// After the sleep. If it does not come to this (a jump, the thread's end) a look is late.
    #[inline]
    pub fn end(self) {
        if self.due != 0 {
            let _ = AWAITED.compare_exchange(self.due, 0, Ordering::Relaxed, Ordering::Relaxed);
            look_if_due();
        }
    }
}
