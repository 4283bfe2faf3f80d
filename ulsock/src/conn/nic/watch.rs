//! Deadlines of connections on the link ([F15]): bytes that are not acknowledged, an end that does not come,
//! a daemon that is gone.
//!
//! There is no thread and no timer: whoever sleeps, while anything is unacknowledged, gets up in time (see
//! [`crate::upkeep`]). A process with nothing unacknowledged sleeps on: its peers will fail over, and
//! their record wakes it by the kernel.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::conn::{send, Conn, Handle};
use crate::family::RECORDS;
use crate::record::flag;
use crate::{lifecycle, process, upkeep, waiter};

/// Milliseconds without an acknowledgement until a side fails over.
pub const DEADLINE: u64 = 500;

/// Connections on the link, by record number.
static LINKED: [AtomicU64; RECORDS / 64] = [const { AtomicU64::new(0) }; RECORDS / 64];
/// Something may have been sent since the last look.
static SENT: AtomicBool = AtomicBool::new(false);

pub fn linked(number: u32) {
    LINKED[number as usize / 64].fetch_or(1 << (number % 64), Ordering::Relaxed);
    note_send();
}

fn forget(number: u32) {
    LINKED[number as usize / 64].fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
}

/// Bytes go to the link: the next sleeper sleeps no longer than the deadline.
#[inline]
pub fn note_send() {
    if !SENT.load(Ordering::Relaxed) {
        SENT.store(true, Ordering::Relaxed);
    }
}

/// Before somebody sleeps.
#[inline]
pub fn before_sleep() {
    if SENT.load(Ordering::Relaxed) {
        SENT.store(false, Ordering::Relaxed);
        upkeep::is_wanted_in(DEADLINE);
    }
}

/// Looks at all connections on the link; whether one has to be looked at again.
pub fn look() -> bool {
    let mut again = false;
    for (word, index) in LINKED.iter().zip(0u32..) {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != 0 {
            let number = index * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            again |= look_at(number);
        }
    }
    again
}

fn look_at(number: u32) -> bool {
    let handle = process::family()
        .zip(lifecycle::fd_of(number))
        .map(|(family, fd)| Handle::new(family, number, fd));
    let Some(conn) = handle.and_then(Conn::enter).filter(|conn| conn.is_nic()) else {
        forget(number);
        return false;
    };
    if conn.record.tx.carrier.load(Ordering::Relaxed) == 0 {
        forget(number);
        return false;
    }
    conn.look_at_deadlines()
}

impl Conn<'_> {
    /// Whether something is unacknowledged, or asked for.
    fn look_at_deadlines(&self) -> bool {
        let now = upkeep::now();
        let (freed, filled) = {
            let shared = self.link.tx_shared();
            let freed = shared.consumer.head.load(Ordering::Acquire);
            (freed, shared.producer.tail.load(Ordering::Acquire))
        };
        let nic = &self.record.nic;
        let asks = nic.asked.load(Ordering::Relaxed) != 0;
        if nic.freed.swap(freed, Ordering::Relaxed) != freed || freed == filled {
            nic.since.store(now, Ordering::Relaxed);
        }
        let late = now >= nic.since.load(Ordering::Relaxed) + DEADLINE;
        if late && freed != filled || self.link.pair.is_gone(now) {
            self.record.set(flag::FAIL_OVER);
            send::leave(self);
        }
        if asks && now >= nic.asked.load(Ordering::Relaxed) + DEADLINE {
            self.record.set(flag::LOOK);
            waiter::ring_all(&self.link.rx_shared().wait.data);
        }
        freed != filled || asks
    }

    /// After a sleep on this connection.
    pub(in crate::conn) fn look_after_link(&self) {
        if self.is_nic() && self.record.tx.carrier.load(Ordering::Relaxed) != 0 {
            self.look_at_deadlines();
        }
    }

    /// Is anything that we sent unacknowledged? Then a sleep ends with the deadline.
    pub(in crate::conn) fn has_unacknowledged(&self) -> bool {
        let shared = self.link.tx_shared();
        self.is_nic()
            && self.record.tx.carrier.load(Ordering::Relaxed) != 0
            && shared.consumer.head.load(Ordering::Relaxed)
                != shared.producer.tail.load(Ordering::Relaxed)
    }
}
