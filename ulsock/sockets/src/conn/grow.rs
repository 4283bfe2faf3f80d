//! Where bytes go that a ring has no room for: to a larger ring, to the kernel if nobody reads, or nowhere yet,
//! and the send waits (see [`super::wait_space`]). The way back is in [`super::shrink`].

use std::sync::atomic::Ordering;

use netstack::ring::mark::LEVELS;
use netstack::ring::{Hostile, Sender};

use super::Conn;
use crate::runtime::spin;
use rendezvous::rings::Rings;

/// A ring whose consumer keeps up grows to this level, larger ones only hold what nobody reads.
pub const BUSY_LEVEL: u8 = 2;

/// In place of the largest level: the program has set a send buffer that is larger than any ring.
pub const BEYOND: u32 = LEVELS as u32;

impl Conn<'_> {
    /// The largest ring of all holds as much as kernel TCP would take with nobody reading: when it is
    /// full, the kernel would be too, unless the program has set a larger buffer. A smaller one gives way to a
    /// larger or to the kernel.
    pub(super) fn may_grow_or_spill(&self, tx: &Sender<'_, Rings>) -> bool {
        (tx.level() as usize) < LEVELS - 1 || self.record.largest.load(Ordering::Relaxed) == BEYOND
    }

    /// The ring is full: a larger one, or the kernel if nobody reads; `false`: wait for space.
    #[cold]
    pub(super) fn make_room(
        &self,
        tx: &mut Sender<'_, Rings>,
        patient: bool,
    ) -> Result<bool, Hostile> {
        if self.is_nic() {
            let stalled = self.is_stalled();
            if stalled {
                self.leave_link(tx)?;
            }
            return Ok(stalled);
        }
        let largest = self.largest();
        // A consumer that keeps up is waited for rather than given a ring beyond the cache's size.
        if tx.level() >= BUSY_LEVEL.min(largest) && self.spin_for_space(tx) {
            return Ok(true);
        }
        let stalled = !tx.consumer_moved()?;
        let allowed = if stalled {
            largest
        } else {
            largest.min(BUSY_LEVEL)
        };
        if self.grow(tx, allowed) {
            return Ok(true);
        }
        let now = stalled || (!patient && self.spills_at_once());
        let spill = now && self.may_grow_or_spill(tx);
        if spill {
            let slots = self.leave_ring(tx)?;
            self.ring_data(tx, slots);
        }
        Ok(spill)
    }

    /// The largest ring level that configuration, rules and program allow.
    pub(super) fn largest(&self) -> u8 {
        let wanted = self.record.largest.load(Ordering::Relaxed);
        wanted.min(self.link.largest.into()) as u8
    }

    /// Is the largest ring so small that the kernel, which takes far more, has the rest of a send that
    /// does not wait?
    pub(super) fn spills_at_once(&self) -> bool {
        self.largest() < BUSY_LEVEL
    }

    fn spin_for_space(&self, tx: &Sender<'_, Rings>) -> bool {
        let head = &tx.shared.consumer.head;
        let before = head.load(Ordering::Relaxed);
        let near = || self.peer_is_near();
        spin::until(&self.me.spin, near, || {
            head.load(Ordering::Relaxed) != before || self.me.deferred.any()
        }) && head.load(Ordering::Relaxed) != before
    }

    fn grow(&self, tx: &mut Sender<'_, Rings>, allowed: u8) -> bool {
        let next = tx.level() + 1;
        let (segment, conn, side) = (&self.link.segment, self.link.conn, self.link.side);
        if next > allowed || !segment.populate(next, conn, side) {
            return false;
        }
        let Some(slots) = tx.grow(allowed) else {
            return false;
        };
        self.note_growth(tx);
        self.ring_data(tx, slots);
        true
    }
}
