//! When a sender changes between ring and kernel: because the receiver wishes it, because somebody of ours
//! does, or because a sleeper can be reached in no other way.

use std::sync::atomic::Ordering;

use netstack::ring::{Hostile, Sender, Slots};

use crate::conn::Conn;
use crate::runtime::chaos;
use crate::state::record::flag;
use os::tcp;
use rendezvous::reason::Reason;
use rendezvous::rings::Rings;

/// So much the kernel takes at once of who has sent it nothing yet.
const REPEATED: u64 = 64 << 10;

impl Conn<'_> {
    /// Changes carriers if the receiver wishes it and nothing stands in the way.
    #[inline]
    pub(super) fn follow_wish(&self, tx: &mut Sender<'_, Rings>) -> Result<(), Hostile> {
        if tx.state.on_ring() {
            if tx.wishes_change() {
                let slots = match self.is_nic() || self.link.peer_shut_both() {
                    true => self.leave_ring(tx)?,
                    false => tx.yield_ring()?,
                };
                self.ring_data(tx, slots);
            } else if self
                .record
                .has(flag::PINNED | flag::PEER_FIN | flag::SHUT | flag::AWAY | flag::FAIL_OVER)
                || self.peer_closed()
                || chaos::strikes()
            {
                let slots = self.leave_ring(tx)?;
                self.ring_data(tx, slots);
            }
        } else if !self.is_nic()
            && tx.wishes_change()
            && self.may_enter(tx)
            && let Some(slots) = tx.enter_ring()
        {
            self.record.set(flag::UPGRADED);
            self.record.set_reason(Reason::None);
            self.ring_data(tx, slots);
        }
        Ok(())
    }

    /// Nothing may be held back in the kernel's queue: the bytes behind it would overtake in time.
    /// Bytes that are sent and not acknowledged do not count: the receiver's kernel has them, and
    /// it delays the acknowledgement when its answers no longer go through the kernel.
    fn may_enter(&self, tx: &Sender<'_, Rings>) -> bool {
        self.may_use_ring()
            && !tx.state.must_resend()
            && tx.settled()
            && self.kernel_holds_nothing_back(tx)
    }

    fn kernel_holds_nothing_back(&self, tx: &Sender<'_, Rings>) -> bool {
        if self.record.is_unix() {
            return self.counts_agree(tx);
        }
        tcp::not_sent(self.socket).is_ok_and(|queued| queued == 0 || self.push_out(queued))
    }

    /// After a message was put on the ring: wakes whom it concerns, and follows a wish that came
    /// meanwhile.
    #[cold]
    pub(in crate::conn) fn follow_up(&self, tx: &mut Sender<'_, Rings>, slots: Slots) {
        self.ring_data(tx, slots);
        if tx.wishes_change() && self.follow_wish(tx).is_ok() {
            let _ = self.flush_resend(tx);
        }
        self.note_carriers(Some(tx.state), None);
    }

    /// A sleeper whose bell we do not have: it hears its kernel socket.
    #[cold]
    pub(super) fn poke(&self, tx: &mut Sender<'_, Rings>) {
        let slots = match self.is_nic() || self.link.peer_shut_both() {
            true => self.leave_ring(tx).unwrap_or(0),
            false => tx.leave_with_poke(),
        };
        self.link.ring(&self.link.tx_shared().wait.data, slots);
        let _ = self.flush_resend(tx);
    }

    /// The peer's wish stands at the kernel: a glance without the lock.
    fn wished_away(&self) -> bool {
        self.record.tx.is_on_ring()
            && self.link.tx_shared().wait.wish.load(Ordering::Relaxed) & 1 == 0
    }
}

/// Wakes a peer that sleeps without a bell that we know, through its kernel socket.
#[cold]
pub fn poke(conn: &Conn<'_>) {
    if let Some(mut held) = conn.lock_tx() {
        conn.poke(&mut conn.sender(held.state()));
    }
}

/// Leaves the ring at the next byte, if on it.
pub fn leave(conn: &Conn<'_>) {
    if let Some(mut held) = conn.lock_tx() {
        let mut tx = conn.sender(held.state());
        let slots = conn.leave_ring(&mut tx).unwrap_or(0);
        conn.ring_data(&mut tx, slots);
        conn.note_carriers(Some(held.state()), None);
    }
}

/// Leaves the ring before an urgent byte, with all that is unread repeated through the kernel: the byte stands behind it
/// there, too, and the mark is ahead of the kernel's reader as long as it is ahead of the program. If that is more than
/// the kernel surely takes, the last byte has to do. The send itself repeats it, and tells if that fails.
pub fn leave_before_urgent(conn: &Conn<'_>) {
    let Some(mut held) = conn.lock_tx() else {
        return;
    };
    let mut tx = conn.sender(held.state());
    if tx.state.on_ring() && !conn.is_nic() && !conn.link.peer_shut_both() {
        let slots = match tx.unread() {
            Ok(unread) if unread <= REPEATED => tx.yield_ring(),
            Ok(_) => Ok(tx.leave_with_poke()),
            Err(hostile) => Err(hostile),
        };
        match slots {
            Ok(slots) => conn.ring_data(&mut tx, slots),
            Err(Hostile) => drop(conn.broken()),
        }
    }
    conn.note_carriers(Some(held.state()), None);
}

/// Serves a receiver that waits for its bytes to come through the kernel, without sending anything
/// new: called when a bell has rung, whatever it rang for.
pub fn serve(conn: &Conn<'_>) {
    if !conn.record.tx.gate.is_closed() || !conn.wished_away() {
        return;
    }
    if let Some(mut held) = conn.lock_tx() {
        let mut tx = conn.sender(held.state());
        if tx.state.on_ring() && tx.wishes_change() && conn.follow_wish(&mut tx).is_ok() {
            let _ = conn.flush_resend(&mut tx);
        }
        conn.note_carriers(Some(held.state()), None);
    }
}
