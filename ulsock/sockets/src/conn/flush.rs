//! From a ring back to the kernel, and what must go through the kernel before any new byte: the record of
//! one that was on the link, and what the ring held.

use netstack::ring::{Hostile, Sender, Slots};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::Conn;
use super::buffers::Scratch;
use crate::runtime::chaos;
use rendezvous::config::Step;
use rendezvous::rings::Rings;

impl Conn<'_> {
    /// From the ring to the kernel, from the next byte on.
    pub(super) fn leave_ring(&self, tx: &mut Sender<'_, Rings>) -> Result<Slots, Hostile> {
        if self.is_nic() {
            self.leave_link(tx)
        } else {
            Ok(tx.leave_ring())
        }
    }

    /// Something must go through the kernel before any new byte.
    #[inline]
    pub(super) fn must_flush(&self, tx: &Sender<'_, Rings>) -> bool {
        tx.state.must_resend() || self.owes_record(tx.state)
    }

    /// Sends again through the kernel what the ring held; `false` when the kernel is full.
    pub(super) fn flush_resend(&self, tx: &mut Sender<'_, Rings>) -> Result<bool, Errno> {
        self.try_to_flush(tx)
            .inspect_err(|error| self.keep_error(*error))
    }

    fn try_to_flush(&self, tx: &mut Sender<'_, Rings>) -> Result<bool, Errno> {
        if self.owes_record(tx.state) {
            if !self.write_record(tx.state)? {
                return Ok(false);
            }
            chaos::die_after(Step::Written);
        }
        while tx.state.must_resend() {
            let mut scratch = Scratch::new();
            let room = scratch.bytes.len() as u64;
            tx.resend(room, &mut scratch);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(self.socket, &scratch.bytes[..scratch.used], flags) {
                Ok(n) => {
                    tx.resent(n as u64);
                    self.die_midway();
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.finish_leaving(tx);
        Ok(true)
    }

    /// A test aid.
    fn die_midway(&self) {
        if self.is_nic() {
            chaos::die_after(Step::Midway);
        }
    }
}

/// `true` when nothing is left that must go through the kernel again.
pub fn flush(conn: &Conn<'_>) -> bool {
    let Some(mut held) = conn.lock_tx() else {
        return true;
    };
    let mut tx = conn.sender(held.state());
    !conn.must_flush(&tx) || conn.flush_resend(&mut tx).unwrap_or(true)
}
