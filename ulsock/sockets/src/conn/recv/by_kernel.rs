//! Bytes of the stream that the kernel carries: taken, thrown away where the ring has brought them already, or
//! peeked at.

use libc::{MSG_DONTWAIT, MSG_TRUNC};
use netstack::ring::{Look, Receiver};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{ReceiveRequest, TakeStep};
use crate::conn::Conn;
use crate::conn::buffers::Incoming;
use crate::runtime::way::Way;
use crate::state::record::{Counts, flag};
use os::tcp;
use rendezvous::rings::Rings;

impl Conn<'_> {
    /// May bytes have left the socket that are not counted, so that where the stream ends seems to stand still or to go
    /// back? Of a connection that is the kernel's, splice and io_uring take them past us; of a Unix socket that is not
    /// begun, other threads take them before they count them.
    pub fn may_miss_bytes(&self) -> bool {
        let rx = &self.record.rx;
        self.record.is_unix() && !rx.gate.is_closed()
            || self.record.has(flag::PINNED) && !rx.is_on_ring()
    }

    /// From the kernel, never more than this stretch holds: first how many are queued, then where
    /// the stretch ends. `shown`: so many of them were of earlier stretches, which a peek has left there.
    pub(super) fn pull_kernel(
        &self,
        rx: &mut Receiver<'_, Rings>,
        into: &mut dyn Incoming,
        asked: ReceiveRequest,
        first: bool,
        shown: &mut u64,
    ) -> Result<TakeStep, Errno> {
        if first {
            self.note_kernel_call();
        }
        let queued = u64::from(tcp::inq(self.socket)?).saturating_sub(*shown);
        let Look::Kernel { skip, limit } = self.look(rx)? else {
            return Ok(TakeStep::Again);
        };
        if queued == 0 {
            // Asking takes a pending error off the socket: only a call that can report it may ask.
            return match first {
                true => self.at_kernel_end(rx, into, asked),
                false => Ok(TakeStep::Empty),
            };
        }
        let len = asked.len as u64;
        if rx.peek && (skip > 0 || *shown > 0) {
            let most = limit.min(len).min(queued.saturating_sub(skip));
            return self.peek_behind(rx, into, skip, most, shown);
        }
        if skip > 0 {
            return self.skip(rx, skip.min(queued));
        }
        // With SO_OOBINLINE what stands behind the mark is counted, too.
        if asked.begun && tcp::at_mark(self.socket) {
            return Ok(TakeStep::Mark);
        }
        let most = limit.min(queued).min(len) as usize;
        let flags = match rx.peek {
            true => RecvFlags::PEEK,
            false => RecvFlags::empty(),
        };
        match into.kernel_recv(self.socket, most, flags) {
            Ok(n) => {
                self.note_taken(rx, n as u64);
                if rx.peek {
                    *shown = n as u64;
                } else {
                    Counts::add(&self.record.rx.counts.kernel_bytes, n as u64);
                }
                Ok(match n {
                    0 => TakeStep::Eof,
                    n => TakeStep::Moved(n),
                })
            }
            Err(Errno::AGAIN) => Ok(TakeStep::Empty),
            Err(error) => Err(error),
        }
    }

    /// What was written past the ring is in no count of the sender's, who judges by ours what is unread there.
    fn note_taken(&self, rx: &mut Receiver<'_, Rings>, n: u64) {
        if !self.record.has(flag::BROKEN) {
            let slots = rx.consumed(n);
            self.ring_space(slots);
        } else if !rx.peek {
            self.record.count_unix(Way::In, n as isize);
        }
    }

    /// From the kernel, which has nothing but what is next, and as it answers: with one system call.
    pub(super) fn pull_all(
        &self,
        rx: &mut Receiver<'_, Rings>,
        into: &mut dyn Incoming,
        len: usize,
    ) -> Result<TakeStep, Errno> {
        self.note_kernel_call();
        match into.kernel_recv(self.socket, len, RecvFlags::empty()) {
            Ok(n @ 1..) => {
                let slots = rx.consumed(n as u64);
                self.ring_space(slots);
                let counts = &self.record.rx.counts;
                Counts::add(&counts.messages, 1);
                Counts::add(&counts.kernel_bytes, n as u64);
                Ok(TakeStep::Moved(n))
            }
            Ok(_) => self.ended(rx, Ok(TakeStep::Eof)),
            Err(Errno::AGAIN) => Ok(TakeStep::Empty),
            Err(error) => self.ended(rx, Err(error)),
        }
    }

    /// Throws kernel bytes away that came through the ring before.
    fn skip(&self, rx: &mut Receiver<'_, Rings>, n: u64) -> Result<TakeStep, Errno> {
        let mut bin = [0u8; 4096];
        let n = n.min(bin.len() as u64) as usize;
        let flags = RecvFlags::from_bits_retain((MSG_DONTWAIT | MSG_TRUNC) as u32);
        let (_, n) = rustix::net::recv(self.socket, &mut bin[..n], flags)?;
        rx.skipped(n as u64);
        Ok(TakeStep::Again)
    }

    /// Peeks at the kernel bytes behind those that were shown already, and those that came through
    /// the ring before.
    #[cold]
    fn peek_behind(
        &self,
        rx: &mut Receiver<'_, Rings>,
        into: &mut dyn Incoming,
        skip: u64,
        most: u64,
        shown: &mut u64,
    ) -> Result<TakeStep, Errno> {
        let behind = *shown + skip;
        let mut bytes = vec![0u8; (behind + most) as usize];
        let (n, _) = rustix::net::recv(
            self.socket,
            &mut bytes[..],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        )?;
        let new = bytes[..n].get(behind as usize..).unwrap_or(&[]);
        if new.is_empty() {
            return Ok(TakeStep::Empty);
        }
        // SAFETY: `new` holds that many bytes.
        unsafe { into.take(new.as_ptr(), new.len()) };
        if into.has_failed() {
            return Err(Errno::FAULT);
        }
        rx.skipped(skip);
        rx.consumed(new.len() as u64);
        *shown = behind + new.len() as u64;
        Ok(TakeStep::Moved(new.len()))
    }

    /// Before a peek: marks that are reached are passed and skipped bytes thrown away for real; a
    /// peek itself changes nothing.
    pub(in crate::conn) fn settle(&self, rx: &mut Receiver<'_, Rings>) -> Result<(), Errno> {
        while let Look::Kernel {
            skip: skip @ 1.., ..
        } = self.look(rx)?
        {
            let queued = u64::from(tcp::inq(self.socket)?);
            if queued == 0 {
                break;
            }
            self.skip(rx, skip.min(queued))?;
        }
        Ok(())
    }
}
