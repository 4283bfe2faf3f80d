//! What the kernel socket says when there is nothing to take: nothing yet, the end, an error, or bytes that no
//! mark has announced. Whatever the ring still holds comes before it.

use std::os::fd::BorrowedFd;

use libc::MSG_PEEK;
use netstack::ring::{Look, Receiver};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::Step;
use crate::conn::buffers::Incoming;
use crate::conn::Conn;
use crate::link::Rings;
use crate::reason::Reason;
use crate::record::flag;
use crate::sys::tcp;

impl Conn<'_> {
    /// The stretch is the kernel's and nothing is queued: no more yet, or the end?
    pub(super) fn at_kernel_end(
        &self,
        rx: &mut Receiver<'_, Rings>,
        into: &mut dyn Incoming,
        len: usize,
        peek: bool,
    ) -> Result<Step, Errno> {
        self.record.clear(flag::LOOK);
        match peek_byte(self.socket) {
            Ok(0) => Ok(Step::Eof),
            Ok(_) if tcp::inq(self.socket)? > 0 => Ok(Step::Again),
            Ok(_) => self.past_urgent_mark(into, len, peek),
            Err(Errno::AGAIN) => {
                // Between two looks a mark may have come; then the caller finds it when it arms.
                let _ = rx.look();
                Ok(Step::Empty)
            }
            Err(error) => Err(error),
        }
    }

    /// There are bytes, but none are counted: an urgent one is next, which this receive passes over.
    /// Who sends such bytes is on the kernel for good, and so are we.
    #[cold]
    fn past_urgent_mark(
        &self,
        into: &mut dyn Incoming,
        len: usize,
        peek: bool,
    ) -> Result<Step, Errno> {
        self.record.set(flag::BROKEN | flag::PINNED);
        self.record.set_reason(Reason::Urgent);
        self.take_plain(into, len, if peek { MSG_PEEK } else { 0 })
    }

    pub(super) fn should_probe(&self, glance: bool) -> bool {
        self.peer_closed()
            || self
                .record
                .has(flag::LOOK | flag::PEER_FIN | flag::SHUT_READING | flag::RECORD_MAY_COME)
            || (glance && self.glance())
    }

    /// The ring is empty: has the kernel socket anything to say?
    pub(super) fn probe(&self, rx: &mut Receiver<'_, Rings>) -> Result<Step, Errno> {
        self.record.clear(flag::LOOK);
        if self.is_nic() && rx.state.on_ring() && !self.record.has(flag::BROKEN) {
            return self.look_for_link_end(rx);
        }
        let end = match peek_byte(self.socket) {
            Err(Errno::AGAIN) => return Ok(Step::Empty),
            Ok(0) => Ok(Step::Eof),
            Ok(_) => Ok(Step::Again),
            Err(error) => Err(error),
        };
        self.ended(rx, end)
    }

    /// The kernel has said something final: what the ring still holds comes first.
    pub(super) fn ended(
        &self,
        rx: &mut Receiver<'_, Rings>,
        end: Result<Step, Errno>,
    ) -> Result<Step, Errno> {
        if matches!(end, Ok(Step::Empty)) {
            return end;
        }
        if matches!(self.look(rx)?, Look::Ring(1..)) {
            self.record.set(flag::LOOK);
            return Ok(Step::Again);
        }
        match end {
            Ok(Step::Again) if rx.state.on_ring() => {
                // Kernel bytes without a mark: somebody wrote who does not know us. They follow
                // what the ring held, and the ring is out of the game.
                self.record.set(flag::BROKEN | flag::PINNED);
                self.record.set_reason(Reason::Protocol);
            }
            Ok(Step::Eof) => self.record.set(flag::PEER_FIN),
            _ => {}
        }
        if self.record.has(flag::NIC) && !self.record.has(flag::BROKEN) {
            return self.ended_after_link(rx, end);
        }
        match (end, self.untold()) {
            (Ok(Step::Eof), Some(error)) => Err(error),
            (end, _) => end,
        }
    }
}

fn peek_byte(socket: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut byte = [0u8; 1];
    let (n, _) = rustix::net::recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(n)
}
