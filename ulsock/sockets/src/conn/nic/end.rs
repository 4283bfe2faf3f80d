//! The ends of a stream that the link carries (`[F22]` to `[F26]`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::{POLLERR, POLLHUP, POLLIN, POLLRDHUP, POLLRDNORM, c_int, c_short};
use netstack::failover::{Segment as _, Stage};
use netstack::ring::{Receiver, RxState};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::super::Conn;
use super::super::recv::TakeStep;
use super::hear::Heard;
use crate::state::engine;
use crate::state::record::flag;
use rendezvous::message::Message;
use rendezvous::rings::{CLOSED, Rings};

impl Conn<'_> {
    /// `[F22]` Has the peer's program ended its stream on the link, and has all of it been read?
    fn link_has_ended(&self) -> bool {
        let tail = self.segment().tail();
        let read = self.link.rx_shared().consumer.head.load(Ordering::Relaxed);
        tail.has_ended() && read == tail.offset()
    }

    /// The same for who holds the receiving lock.
    pub(in crate::conn) fn ends_on_link(&self, rx: &RxState) -> bool {
        if !self.is_nic() || !rx.on_ring() {
            return false;
        }
        let tail = self.segment().tail();
        tail.has_ended() && rx.pos == tail.offset()
    }

    /// The ring is empty: what the word, or the kernel, has to say. Under the receiving lock.
    #[cold]
    pub(in crate::conn) fn look_for_link_end(
        &self,
        rx: &mut Receiver<'_, Rings>,
    ) -> Result<TakeStep, Errno> {
        if self.ends_on_link(rx.state) {
            return Ok(TakeStep::Eof);
        }
        match self.hear(rx)? {
            Heard::Plain | Heard::Record => Ok(TakeStep::Again),
            Heard::Nothing => Ok(TakeStep::Empty),
            Heard::End(end) if rx.state.on_ring() => self.judge_or_ask(rx, end),
            Heard::End(_) => Ok(TakeStep::Again),
        }
    }

    /// `[F22]` The kernel says this is the end, and carries the stream: one that comes before the peer's promise
    /// is kept is none. Under the receiving lock.
    #[cold]
    pub(in crate::conn) fn ended_after_link(
        &self,
        rx: &Receiver<'_, Rings>,
        end: Result<TakeStep, Errno>,
    ) -> Result<TakeStep, Errno> {
        let tip = match &end {
            Ok(TakeStep::Eof) => Ok(()),
            Err(error) => {
                self.keep_error(*error);
                Err(*error)
            }
            Ok(_) => return end,
        };
        self.judge_or_ask(rx, tip)
    }

    fn judge_or_ask(
        &self,
        rx: &Receiver<'_, Rings>,
        end: Result<(), Errno>,
    ) -> Result<TakeStep, Errno> {
        match self.judge_end(rx, end) {
            Some(end) => end.map(|()| TakeStep::Eof),
            None => self.ask(end),
        }
    }

    /// `[F23]` The kernel's end only asks, for a while. Under the receiving lock.
    fn ask(&self, end: Result<(), Errno>) -> Result<TakeStep, Errno> {
        let (now, asked) = (os::clock::coarse_ms(), &self.record.nic.asked);
        if asked.load(Ordering::Relaxed) == 0 {
            asked.store(now, Ordering::Relaxed);
            crate::runtime::reclaim_timer::is_wanted_in(super::watch::DEADLINE);
        }
        self.record.set(flag::LOOK);
        if now < asked.load(Ordering::Relaxed) + super::watch::DEADLINE {
            return Ok(TakeStep::Empty);
        }
        // The ring has been read out; with the word frozen nothing more comes.
        let tail = self.segment().freeze();
        let Some(mut held) = self.lock_tx() else {
            return Ok(TakeStep::Empty);
        };
        if tail.has_ended() {
            return Ok(TakeStep::Again);
        }
        self.failover(held.state(), |side| side.despair());
        drop(held);
        if let Err(error) = end {
            self.keep_error(error);
        }
        self.broken();
        // Lest our own FIN look like an end.
        let _ = sockopt::set_socket_linger(self.socket, Some(Duration::ZERO));
        self.end_by_verdict(end).map(|()| TakeStep::Eof)
    }

    /// What the kernel's poll says about a connection on the link: an end there only asks.
    pub(in crate::conn) fn events_of_link(&self, kernel: c_short) -> c_short {
        if !self.is_only_asked() {
            return kernel | self.untold().map_or(0, |_| POLLERR);
        }
        let ended = match (self.link_has_ended(), self.record.has(flag::SHUT)) {
            (false, _) => 0,
            (true, false) => POLLIN | POLLRDNORM | POLLRDHUP,
            (true, true) => POLLIN | POLLRDNORM | POLLRDHUP | POLLHUP,
        };
        kernel & !(POLLIN | POLLRDNORM | POLLRDHUP | POLLHUP | POLLERR) | ended
    }

    /// The kernel socket shows an end while the link carries the streams: the next receive looks.
    pub fn is_only_asked(&self) -> bool {
        self.is_nic() && self.record.rx.is_on_ring() && !self.record.has(flag::BROKEN)
    }

    /// `[F25]` Ends our own direction on the link, if that carries it; `false`: it is the kernel's business.
    pub(in crate::conn) fn end_on_link(&self, how: c_int) -> bool {
        if !self.is_nic() {
            return false;
        }
        if self.is_joining() {
            self.join_before_send(usize::MAX);
        }
        let Some(mut held) = self.lock_tx() else {
            return false;
        };
        let mut tx = self.sender(held.state());
        if !tx.state.on_ring() || self.stage(tx.state) != Stage::Linked {
            return false;
        }
        if how != libc::SHUT_WR {
            let _ = self.leave_link(&mut tx);
            return false;
        }
        self.record.set(flag::SHUT);
        self.say_closed();
        true
    }

    fn say_closed(&self) {
        let producer = &self.link.tx_shared().producer;
        producer.closed.store(CLOSED, Ordering::Release);
        self.link.ring_engine();
    }

    /// The program has said that closing resets it (SO_LINGER without any time).
    fn is_to_be_reset(&self) -> bool {
        sockopt::socket_linger(self.socket) == Ok(Some(Duration::ZERO))
    }

    /// `[F24]` Before the last holder closes: the daemon does the rest, if it can; else we leave the link
    /// first. `true`: nothing is left to do.
    pub(in crate::conn) fn close_on_link(&self) -> bool {
        if !self.is_nic() {
            return false;
        }
        if self.is_joining() {
            self.join_before_send(usize::MAX);
        }
        let reset = self.ring_is_unread() || self.is_to_be_reset();
        let Some(mut held) = self.lock_tx() else {
            return false;
        };
        let mut tx = self.sender(held.state());
        if !tx.state.on_ring() || self.stage(tx.state) != Stage::Linked {
            return false;
        }
        if reset {
            // As in the kernel. The daemon hears that we have let go, and resets the link too; with its word frozen the
            // engine says no clean end, whatever becomes of this process.
            self.segment().freeze();
            let _ = sockopt::set_socket_linger(self.socket, Some(Duration::ZERO));
            self.reset_for_all();
            return true;
        }
        if self.segment().tail().is_frozen() {
            let _ = self.leave_link(&mut tx);
            return false;
        }
        self.say_closed();
        if self.link.is_inline() {
            if engine::has_all(self.link) {
                self.end_for_all();
                return true;
            }
            // The daemon says the rest, by the kernel.
            engine::let_go(self.link);
        }
        let message = Message::Leave {
            segment: self.link.segment.number,
            conn: self.link.conn,
        };
        if self.link.pair.is_mine() && self.link.pair.tell(&message, Some(self.socket)) {
            return true;
        }
        let _ = self.leave_link(&mut tx);
        false
    }
}
