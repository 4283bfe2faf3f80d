//! Back to the kernel: freeze, write the record, send again what the peer may lack (`[F14]` to `[F20]`).

use netstack::failover::record::LENGTH;
use netstack::failover::{Resume, Segment as _, Stage};
use netstack::ring::{Hostile, Sender, Slots, Tail, TxState};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

use super::super::{Conn, send};
use crate::runtime::chaos;
use crate::state::orders;
use crate::state::record::{Owed, flag};
use rendezvous::config::Step;
use rendezvous::reason::Reason;
use rendezvous::rings::Rings;

impl Conn<'_> {
    /// `[F15]` `[F16]` Leaves the rings of the link, in both directions. Under the sending lock. The slots of
    /// those who sleep for data of ours, which is nobody but the engine: it is left alone.
    pub(in crate::conn) fn leave_link(&self, tx: &mut Sender<'_, Rings>) -> Result<Slots, Hostile> {
        if self.stage(tx.state) == Stage::Linked {
            let tail = self.segment().freeze();
            self.failover(tx.state, |side| side.freeze());
            self.record
                .set_reason(match orders::keep_on_kernel(self.record) {
                    true => Reason::Ordered,
                    false => Reason::FailedOver,
                });
            chaos::die_after(Step::Frozen);
            self.resume(tx, tail);
        }
        Ok(0)
    }

    /// `[F15]` The engine serves it no more. But who has nothing to say to a peer that has ended its stream says
    /// nothing: a record would draw a reset if that has closed, too.
    pub(in crate::conn) fn follow_frozen_word(&self) {
        let tail = self.segment().tail();
        if !tail.is_frozen() {
            return;
        }
        self.record.set(flag::FAIL_OVER);
        if self.has_unacknowledged() || !tail.has_ended() {
            send::leave(self);
        }
    }

    /// The word is frozen, and says this. Under the sending lock.
    pub(super) fn resume(&self, tx: &mut Sender<'_, Rings>, tail: Tail) {
        if self.stage(tx.state) != Stage::Frozen {
            return;
        }
        if tx.state.on_ring() && tx.yield_ring().is_err() {
            // The engine says that it has freed what was never there.
            self.broken();
            return;
        }
        let wanted = self.failover(tx.state, |side| side.wanted());
        let written = tx.state.written;
        let from = match tx.state.left_to_resend() {
            0 => written,
            _ => tx.state.resend_after(wanted.unwrap_or(0)),
        };
        let record = self.failover(tx.state, |side| side.resume(tail, from, written));
        os::log::debug(format_args!(
            "connection {:?} -> {:?} leaves the link: {record:?}",
            self.record.local(),
            self.record.peer()
        ));
        self.note_record(&record);
        chaos::die_after(Step::Noted);
        self.owe(tx.state, &record);
        self.record.clear(flag::FAIL_OVER);
        self.note_carriers(Some(tx.state), None);
        let _ = self.flush_resend(tx);
        self.finish_leaving(tx);
    }

    /// Under the sending lock, of which `tx` is the proof.
    pub(super) fn owe(&self, tx: &TxState, record: &Resume) {
        self.assert_locked(tx);
        let owed = Owed {
            bytes: record.to_bytes(),
            left: LENGTH as u32,
        };
        // SAFETY: the sending lock is held (`assert_locked`), and nobody looks at it without.
        unsafe { *self.record.nic.owed.get() = owed };
    }

    /// Something must go to the kernel before any new byte. Under the sending lock, of which `tx` is the proof.
    #[inline]
    pub(in crate::conn) fn owes_record(&self, tx: &TxState) -> bool {
        debug_assert!(std::ptr::eq(tx, self.record.tx.state.get()));
        // SAFETY: a reference to the sending state exists only while the sending lock is held, and nobody looks without.
        self.record.has(flag::NIC) && unsafe { (*self.record.nic.owed.get()).left > 0 }
    }

    /// Writes what is left of the record; `false` when the kernel is full. Under the sending lock, of which `tx` is the proof.
    pub(in crate::conn) fn write_record(&self, tx: &TxState) -> Result<bool, Errno> {
        self.assert_locked(tx);
        // SAFETY: the sending lock is held (`assert_locked`), and nobody looks at it without.
        let owed = unsafe { &mut *self.record.nic.owed.get() };
        while owed.left > 0 {
            let begin = LENGTH - (owed.left as usize).min(LENGTH);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(self.socket, &owed.bytes[begin..], flags) {
                Ok(n) => owed.left -= (n as u32).min(owed.left),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// `[F20]` After a flush: if all that the ring held is in the kernel, plain bytes follow; or `[F25]` FIN, if
    /// the program has said that none does. Under the sending lock.
    pub(in crate::conn) fn finish_leaving(&self, tx: &Sender<'_, Rings>) {
        if !self.record.has(flag::NIC) || self.owes_record(tx.state) || tx.state.must_resend() {
            return;
        }
        if self.stage(tx.state) == Stage::Resending {
            self.failover(tx.state, |side| side.resent());
            chaos::die_after(Step::Resent);
            if self.record.has(flag::SHUT) {
                let _ = rustix::net::shutdown(self.socket, Shutdown::Write);
            }
        }
        self.end_trust_if_plain(tx.state);
    }

    /// Plain bytes have been written to the kernel. Under the sending lock, of which `tx` is the proof.
    #[inline]
    pub(in crate::conn) fn has_spoken(&self, tx: &TxState) {
        if self.record.has(flag::RECORD_MAY_COME) {
            self.failover(tx, |side| side.spoke());
        }
    }
}
