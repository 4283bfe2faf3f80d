//! Urgent data: the byte, its mark and POLLPRI are the kernel's, and so is the stream from that byte on.
//!
//! Who sends an urgent byte leaves the ring for good, and what the receiver has not read goes through the kernel again
//! before it. So the kernel's stream is what it would be without a ring: its reader stands before, at or behind the mark
//! as the program does, once the bytes that the program has read from the ring are thrown away there. The receiver
//! asks the kernel where the mark is, passes it, and from then on is on the kernel for good, too.

use std::sync::atomic::Ordering;

use libc::POLLPRI;
use netstack::ring::{Look, Receiver};

use super::{Conn, Handle, demote, send};
use crate::state::record::{Record, State, flag};
use os::tcp;
use rendezvous::reason::Reason;
use rendezvous::rings::Rings;

/// Before a send with MSG_OOB.
pub fn before_send(record: &Record, handle: Handle) {
    let pinned = record.has(flag::PINNED);
    // First, so that nobody enters the ring again.
    record.set(flag::PINNED);
    if let Some(conn) = Conn::enter(handle)
        && record.tx.gate.is_closed()
    {
        send::leave_before_urgent(&conn);
    }
    match record.state() {
        State::Managed if !pinned => demote(handle, Reason::Urgent),
        _ => record.set_reason(Reason::Urgent),
    }
}

impl Conn<'_> {
    /// Is the mark the next thing that the program reads?
    pub fn is_at_mark(&self) -> bool {
        if !self.record.rx.gate.is_closed() {
            return tcp::at_mark(self.socket);
        }
        let Some(mut held) = self.lock_rx() else {
            return false;
        };
        let mut rx = self.receiver(held.state());
        self.settle(&mut rx).is_ok()
            && matches!(self.look(&mut rx), Ok(Look::Kernel { skip: 0, .. }))
            && tcp::at_mark(self.socket)
    }

    /// Can the kernel have an urgent byte? Its sender has left the ring before, and said so.
    pub(super) fn may_have_urgent(&self) -> bool {
        let shared = self.link.rx_shared();
        !self.record.rx.is_on_ring()
            || shared.producer.epoch.load(Ordering::Acquire)
                != shared.consumer.epoch.load(Ordering::Relaxed)
    }

    /// There is one, ahead of the program, that nobody has taken.
    pub(super) fn has_urgent(&self) -> bool {
        self.may_have_urgent() && self.kernel_events() & POLLPRI != 0
    }

    /// The peer sends urgent bytes: no ring will carry this direction again. Under the receiving lock.
    pub(super) fn stay_on_kernel(&self, rx: &mut Receiver<'_, Rings>) {
        // What the link has counted is of no use any more.
        let broken = if self.is_nic() { flag::BROKEN } else { 0 };
        self.record.set(flag::PINNED | broken);
        self.record.set_reason(Reason::Urgent);
        if !rx.peek {
            let slots = rx.wish(false);
            self.ring_space(slots);
        }
    }
}
