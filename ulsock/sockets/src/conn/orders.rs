//! What is asked of a connection from outside ([`crate::state::orders`]), done at its next call: both directions go back to
//! the kernel, or rings are welcome again.
//!
//! As with the guard, the peer's direction follows by a wish. One end is enough: where both have an order, each does the
//! same. A connection that is not managed is held back in [`crate::promote`].

use std::sync::atomic::Ordering;

use super::guard::{FOR_GOOD, ORDERED};
use super::{Conn, recv, rouse_peer, send};
use crate::state::orders;
use crate::state::record::flag;
use rendezvous::reason::Reason;

impl Conn<'_> {
    /// At a call, before it moves a byte; with no lock held.
    #[inline]
    pub(super) fn heed_orders(&self) {
        if self.record.has(flag::ORDERED) {
            self.look_at_orders();
        }
    }

    /// Somebody outside asks something: of this connection, or of the program.
    #[cold]
    fn look_at_orders(&self) {
        orders::take(self.record);
        if self.record.has(FOR_GOOD) {
            return;
        }
        match orders::keep_on_kernel(self.record) {
            true => self.go_as_ordered(),
            false => self.come_back_as_ordered(),
        }
    }

    /// Both directions to the kernel: ours from the next byte on, the peer's as soon as it hears of it.
    fn go_as_ordered(&self) {
        if self.is_nic() {
            return self.leave_link_as_ordered();
        }
        // The guard's opinion does not matter now.
        self.record.clear(flag::AWAY);
        self.record.set_reason(Reason::Ordered);
        self.wish_as_ordered();
        if self.record.tx.gate.is_closed() {
            send::leave(self);
        }
        rouse_peer(self);
    }

    fn leave_link_as_ordered(&self) {
        if self.record.tx.is_on_ring() || self.is_joining() {
            self.record.set(flag::FAIL_OVER);
            send::leave(self);
        }
        self.record.set_reason(Reason::Ordered);
    }

    fn come_back_as_ordered(&self) {
        if self.record.reason() == Reason::Ordered {
            self.record.set_reason(Reason::None);
        }
        if self.is_nic() {
            return;
        }
        // Sleepers in epoll sets get their wires before the first ring byte can come.
        (super::readiness::told().touch)(self.handle);
        self.wish_as_ordered();
    }

    /// Under the lock it is asked once more: another thread may have seen a later order, and been here before.
    fn wish_as_ordered(&self) {
        let Some(mut held) = self.lock_rx() else {
            return;
        };
        let stays = orders::keep_on_kernel(self.record);
        // Before the wish: a peer that follows it knows why. Otherwise the word is the guard's.
        let away = &self.link.mine().away;
        if stays {
            away.store(ORDERED, Ordering::Relaxed);
        } else {
            if away.load(Ordering::Relaxed) == ORDERED {
                away.store(0, Ordering::Relaxed);
            }
            return recv::prefer_ring(self, held.state());
        }
        if self.record.rx.gate.is_closed() {
            let slots = self.receiver(held.state()).wish(false);
            drop(held);
            self.ring_space(slots);
        }
    }

    /// The peer has an order, and says so.
    pub(super) fn is_ordered_by_peer(&self) -> bool {
        !self.is_nic() && self.link.theirs().away.load(Ordering::Relaxed) == ORDERED
    }

    /// Our reason is the peer's order, as long as it stands.
    pub(super) fn note_order_of_peer(&self) {
        match (self.is_ordered_by_peer(), self.record.reason()) {
            (true, Reason::None) => self.record.set_reason(Reason::Ordered),
            (false, Reason::Ordered) if !orders::keep_on_kernel(self.record) => {
                self.record.set_reason(Reason::None);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
