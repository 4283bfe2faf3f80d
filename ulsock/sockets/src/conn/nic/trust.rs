//! `[F31]` What the daemon is entrusted with as long as a connection is on the link, or on its way back: a duplicate of
//! the socket, and in the block how to continue. If the program is killed meanwhile, what it has written still arrives.
//!
//! Trust ends before anybody else can hold the socket, and when the kernel carries plain bytes both ways.

use std::sync::atomic::Ordering;

use netstack::failover::{Resume, Stage};
use netstack::ring::TxState;
use rustix::net::{Shutdown, connect_unspec};

use super::super::Conn;
use os::tcp;
use rendezvous::message::Message;

impl Conn<'_> {
    /// The link carries both directions from here on, and nothing has gone by the kernel since. Under both locks.
    pub(super) fn entrust(&self) {
        let counts = tcp::given(self.socket).zip(tcp::taken(self.socket));
        let Some((sent, taken)) = counts else {
            return;
        };
        let trust = &self.link.mine().trust;
        trust.sent.store(sent, Ordering::Relaxed);
        trust.taken.store(taken, Ordering::Relaxed);
        trust.given.store(1, Ordering::Release);
        let (segment, conn) = (self.link.segment.number, self.link.conn);
        let message = Message::Entrust { segment, conn };
        self.link.pair.tell(&message, Some(self.socket));
    }

    /// Before the first byte of a record. Under the sending lock.
    pub(super) fn note_record(&self, record: &Resume) {
        let trust = &self.link.mine().trust;
        trust.written.store(record.written, Ordering::Relaxed);
        trust.from.store(record.from + 1, Ordering::Release);
    }

    /// If nothing but plain bytes can come and go, the kernel does the rest. Under the sending lock,
    /// of which `tx` is the proof.
    pub(super) fn end_trust_if_plain(&self, tx: &TxState) {
        let is_plain =
            || self.failover(tx, |side| side.stage() == Stage::Kernel && side.has_heard());
        if self.is_nic() && self.link.mine().trust.is_given() && is_plain() {
            self.end_trust();
        }
    }

    /// Whoever else gets hold of the socket may go on with it when this program is dead.
    pub fn end_trust(&self) {
        if self.is_nic() && self.link.mine().trust.end() {
            self.link.ring_daemon();
        }
    }

    /// The last holder closes. If the way back is not at its end, the daemon goes it; `false` if nothing is left to do,
    /// or it cannot.
    pub(in crate::conn) fn leave_the_rest(&self) -> bool {
        if !self.is_nic() || !self.link.mine().trust.is_given() {
            return false;
        }
        let (segment, conn) = (self.link.segment.number, self.link.conn);
        let message = Message::Leave { segment, conn };
        self.link.pair.is_mine() && self.link.pair.tell(&message, Some(self.socket))
    }

    /// The daemon may hold the socket, too: closing it is not enough.
    pub(in crate::conn) fn end_for_all(&self) {
        if self.is_entrusted() {
            self.end_trust();
            let _ = rustix::net::shutdown(self.socket, Shutdown::Both);
        }
    }

    pub(in crate::conn) fn reset_for_all(&self) {
        if self.is_entrusted() {
            self.end_trust();
            let _ = connect_unspec(self.socket);
        }
    }

    fn is_entrusted(&self) -> bool {
        self.is_nic() && (self.link.mine().trust.is_given() || self.link.theirs().trust.is_given())
    }
}
