//! What the kernel socket says when there is nothing to take: nothing yet, the end, an error, or bytes that no
//! mark has announced. Whatever the ring still holds comes before it.

use std::os::fd::BorrowedFd;

use netstack::ring::{Look, Receiver, RxState};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{ReceiveRequest, TakeStep};
use crate::conn::buffers::Incoming;
use crate::conn::{Conn, rouse_peer};
use crate::state::record::flag;
use os::tcp;
use rendezvous::reason::Reason;
use rendezvous::rings::Rings;

impl Conn<'_> {
    /// The stretch is the kernel's and nothing is queued: no more yet, the mark of urgent data, or the end?
    pub(super) fn at_kernel_end(
        &self,
        rx: &mut Receiver<'_, Rings>,
        into: &mut dyn Incoming,
        asked: ReceiveRequest,
    ) -> Result<TakeStep, Errno> {
        self.record.clear(flag::LOOK);
        if tcp::at_mark(self.socket) {
            return self.pass_mark(rx, into, asked);
        }
        match peek_byte(self.socket) {
            Ok(0) => Ok(TakeStep::Eof),
            Ok(_) => Ok(TakeStep::Again),
            Err(Errno::AGAIN) => {
                // Between two looks a mark may have come; then the caller finds it when it arms.
                let _ = rx.look();
                Ok(TakeStep::Empty)
            }
            Err(error) => Err(error),
        }
    }

    /// An urgent byte is next, which this receive passes over, also if nothing is behind it. Who sends such
    /// bytes is on the kernel for good, and so are we: it is in no count of ours.
    #[cold]
    fn pass_mark(
        &self,
        rx: &mut Receiver<'_, Rings>,
        into: &mut dyn Incoming,
        asked: ReceiveRequest,
    ) -> Result<TakeStep, Errno> {
        self.stay_on_kernel(rx);
        self.take_plain(into, asked)
    }

    pub(super) fn should_probe(&self, glance: bool) -> bool {
        self.peer_closed()
            || self
                .record
                .has(flag::LOOK | flag::PEER_FIN | flag::SHUT_READING | flag::RECORD_MAY_COME)
            || (glance && self.glance())
    }

    /// The ring is empty: has the kernel socket anything to say?
    pub(super) fn probe(&self, rx: &mut Receiver<'_, Rings>) -> Result<TakeStep, Errno> {
        let shown = self.record.has(flag::LOOK);
        self.record.clear(flag::LOOK);
        if self.is_nic() && rx.state.on_ring() && !self.record.has(flag::BROKEN) {
            return self.look_for_link_end(rx);
        }
        let end = match peek_byte(self.socket) {
            // An urgent byte, which a peek does not show, would wake a receive for ever.
            Err(Errno::AGAIN) if shown && tcp::at_mark(self.socket) => Ok(TakeStep::Again),
            Err(Errno::AGAIN) => return Ok(TakeStep::Empty),
            Ok(0) => Ok(TakeStep::Eof),
            Ok(_) => Ok(TakeStep::Again),
            Err(error) => Err(error),
        };
        self.ended(rx, end)
    }

    /// The kernel has said something final: what the ring still holds comes first.
    pub(super) fn ended(
        &self,
        rx: &mut Receiver<'_, Rings>,
        end: Result<TakeStep, Errno>,
    ) -> Result<TakeStep, Errno> {
        if matches!(end, Ok(TakeStep::Empty)) {
            return end;
        }
        if matches!(self.look(rx)?, Look::Ring(1..)) {
            self.record.set(flag::LOOK);
            return Ok(TakeStep::Again);
        }
        match end {
            Ok(TakeStep::Again) if rx.state.on_ring() => self.go_on_past_ring(),
            Ok(TakeStep::Eof) => {
                self.note_reset_by_peer();
                self.find_unread_at_end();
                self.record.set(flag::PEER_FIN);
            }
            _ => {}
        }
        if self.record.has(flag::NIC) && !self.record.has(flag::BROKEN) {
            return self.ended_after_link(rx, end);
        }
        match (end, self.untold()) {
            (Ok(TakeStep::Eof), Some(error)) => Err(error),
            (end, _) => end,
        }
    }
}

impl Conn<'_> {
    /// Kernel bytes without a mark: somebody wrote who does not know us, or means harm. They come after what the ring
    /// holds. First the queue, then the marks: who leaves a ring publishes its mark before it writes to the kernel.
    pub(in crate::conn) fn has_bytes_past_ring(&self, rx: &mut Receiver<'_, Rings>) -> bool {
        !self.is_nic()
            && matches!(tcp::inq(self.socket), Ok(1..))
            && matches!(self.look(rx), Ok(Look::Ring(_)))
            && !rx.has_left_ring()
    }

    /// Those bytes are next, and the ring is out of the game.
    #[cold]
    pub(in crate::conn) fn go_on_past_ring(&self) {
        self.record.set(flag::BROKEN | flag::PINNED);
        self.record.set_reason(Reason::Protocol);
    }

    /// The ring is out of the game: a sender that was only confused sends again by the kernel what it has written
    /// there since.
    #[cold]
    pub(super) fn ask_past_ring(&self, state: &mut RxState) {
        let slots = self.receiver(state).wish(false);
        self.ring_space(slots);
        rouse_peer(self);
    }
}

fn peek_byte(socket: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut byte = [0u8; 1];
    let (n, _) = rustix::net::recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(n)
}
