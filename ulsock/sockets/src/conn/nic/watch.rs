//! Deadlines of connections on the link (`[F15]`): bytes that are not acknowledged, an end that does not come,
//! a daemon that is gone.
//!
//! There is no thread and no timer: whoever sleeps, while anything is unacknowledged, gets up in time (see
//! [`crate::conn::reclaim`]). A process with nothing unacknowledged sleeps on: its peers will fail over, and
//! their record wakes it by the kernel.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netstack::failover::Segment as _;

use crate::conn::{Conn, Handle, send};
use crate::state::engine;
use crate::state::process_group::RECORDS;
use crate::state::record::{NOTHING_WAITS, flag};
use crate::state::ring_pair::RingPair;

/// Milliseconds without an acknowledgement until a side fails over.
pub const DEADLINE: u64 = 500;
/// Between two looks, while anything is unacknowledged: the first one begins to count.
pub const LOOK: u64 = DEADLINE / 4;

os::process_wide! {
    /// Connections on the link, by record number.
    static LINKED: [AtomicU64; RECORDS / 64] = [const { AtomicU64::new(0) }; RECORDS / 64];
    /// Something may have been sent since the last look.
    static SENT: AtomicBool = AtomicBool::new(false);
}

pub fn linked(number: u32) {
    LINKED[number as usize / 64].fetch_or(1 << (number % 64), Ordering::Relaxed);
    note_send();
}

fn forget(number: u32) {
    LINKED[number as usize / 64].fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
}

/// Bytes are in a ring that leads to the link: our own engine takes them at once.
#[inline]
pub fn has_sent(link: &RingPair) {
    note_send();
    if link.is_inline() {
        engine::poll();
    }
}

/// Bytes go to the link: the next sleeper gets up for a look.
#[inline]
fn note_send() {
    if !SENT.load(Ordering::Relaxed) {
        SENT.store(true, Ordering::Relaxed);
    }
}

/// Before somebody sleeps.
#[inline]
pub fn before_sleep() {
    if SENT.load(Ordering::Relaxed) {
        SENT.store(false, Ordering::Relaxed);
        crate::runtime::reclaim_timer::is_wanted_in(LOOK);
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
    let handle = crate::state::process_group::own()
        .zip(crate::state::process_group::fd_of(number))
        .map(|(family, fd)| Handle::new(family, number, fd));
    let Some(conn) = handle.and_then(Conn::enter).filter(|conn| conn.is_nic()) else {
        forget(number);
        return false;
    };
    if !conn.record.tx.is_on_ring() {
        forget(number);
        return false;
    }
    conn.look_at_deadlines()
}

impl Conn<'_> {
    /// Whether something is unacknowledged, or asked for.
    fn look_at_deadlines(&self) -> bool {
        let now = os::clock::coarse_ms();
        if self.is_stalled() || self.link.pair.is_gone(now) {
            self.record.set(flag::FAIL_OVER);
            send::leave(self);
        }
        let asked = self.record.nic.asked.load(Ordering::Relaxed);
        if asked != 0 && now >= asked + DEADLINE {
            self.record.set(flag::LOOK);
            self.link.ring_own(&self.link.rx_shared().wait.data);
        }
        self.has_unacknowledged() || asked != 0
    }

    /// Has none of what we sent been acknowledged for as long as the deadline? A ring that is full again
    /// and again says nothing: a lost frame takes its time.
    pub(in crate::conn) fn is_stalled(&self) -> bool {
        let shared = self.link.tx_shared();
        let freed = shared.consumer.head.load(Ordering::Acquire);
        let (nic, now) = (&self.record.nic, os::clock::coarse_ms());
        let waits_at = match shared.producer.tail.load(Ordering::Acquire) {
            tail if tail == freed => NOTHING_WAITS,
            _ => freed,
        };
        if nic.waits_at.load(Ordering::Acquire) != waits_at {
            // First this: who finds the place known finds its time, too.
            nic.since.store(now, Ordering::Relaxed);
            nic.waits_at.store(waits_at, Ordering::Release);
        }
        waits_at != NOTHING_WAITS && now >= nic.since.load(Ordering::Relaxed) + DEADLINE
    }

    /// After arming in a set, and with bytes and room seen to: has the link something to say that nobody has attended to? An
    /// end counts unless it has been `told`.
    pub fn has_word_of_link(&self, told: bool) -> bool {
        if !self.is_nic() || !self.record.tx.is_on_ring() {
            return self.is_to_attend();
        }
        let tail = self.segment().tail();
        tail.is_frozen() || tail.has_ended() && !told
    }

    /// After a sleep on this connection.
    pub(in crate::conn) fn look_after_link(&self) {
        if self.is_nic() && self.record.tx.is_on_ring() {
            self.look_at_deadlines();
        }
    }

    /// Is anything that we sent unacknowledged? Then a sleep ends with the deadline.
    pub(in crate::conn) fn has_unacknowledged(&self) -> bool {
        let shared = self.link.tx_shared();
        self.is_nic()
            && self.record.tx.is_on_ring()
            && shared.consumer.head.load(Ordering::Relaxed)
                != shared.producer.tail.load(Ordering::Relaxed)
    }
}
