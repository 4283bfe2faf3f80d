//! The kernel's verdict on a connection: an error, which it tells once, to whoever asks first. That may be a look
//! of our own that cannot report it, a call that has moved bytes or messages before, or one thread's send while
//! another thread waits for a record that will never come.
//!
//! So it is kept in the record by who sees it first, told by the first call that can, and from then on reads find
//! an end and sends EPIPE, as in the kernel.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::net::sockopt;

use super::super::Conn;
use crate::state::journal::Happening;
use crate::state::record::{Record, flag};
use os::tcp;

/// In place of an error: one has been told.
const TOLD: u64 = u64::MAX;
const TCP_CLOSE: u8 = 7;

/// Does it speak of the connection? EPIPE speaks of the call, and so do the others.
fn is_verdict(error: Errno) -> bool {
    let of_the_call = [
        Errno::AGAIN,
        Errno::INTR,
        Errno::FAULT,
        Errno::PIPE,
        Errno::BADF,
        Errno::INVAL,
        Errno::MSGSIZE,
        Errno::NOMEM,
        Errno::NOBUFS,
    ];
    !of_the_call.contains(&error)
}

/// A verdict that nobody has been told.
fn kept(word: u64) -> Option<Errno> {
    let is_one = !matches!(word, 0 | TOLD);
    is_one.then(|| Errno::from_raw_os_error(word as i32))
}

/// The program has been told this, past our own calls.
fn was_told(record: &Record) {
    record.nic.error.store(TOLD, Ordering::Relaxed);
}

impl Conn<'_> {
    /// Unix sockets have one verdict; all else speaks of the call.
    fn is_verdict(&self, error: Errno) -> bool {
        match self.record.is_unix() {
            true => error == Errno::CONNRESET,
            false => is_verdict(error),
        }
    }

    /// Seen where no call can report it.
    pub fn keep_error(&self, error: Errno) {
        if !self.is_verdict(error) {
            return;
        }
        let word = self.record.nic.error.load(Ordering::Relaxed);
        if kept(word).is_none() {
            self.keep_instead_of(word, error);
        }
    }

    /// The same, unless there has been one.
    pub(in crate::conn) fn keep_first_error(&self, error: Errno) {
        if self.record.nic.error.load(Ordering::Relaxed) == 0 {
            self.keep_error(error);
        }
    }

    /// A verdict that nobody has been told.
    pub(in crate::conn) fn untold(&self) -> Option<Errno> {
        kept(self.record.nic.error.load(Ordering::Relaxed))
    }

    /// What a call reports that has failed like this: the verdict, if nobody has been told.
    pub(in crate::conn) fn report(&self, error: Errno) -> Errno {
        if !self.is_verdict(error) && error != Errno::PIPE {
            return error;
        }
        // A Unix socket that cannot send any more says so, and keeps its verdict for a receive.
        if error == Errno::PIPE && self.record.is_unix() {
            return error;
        }
        self.keep_error(error);
        match self.untold() {
            Some(kept) => {
                was_told(self.record);
                kept
            }
            None => error,
        }
    }

    /// The program asks for the error of its socket, of which the kernel says this: what it gets.
    pub fn take_verdict(&self, pending: Option<Errno>) -> Option<Errno> {
        self.note_reset_by_peer();
        self.find_unread_at_end();
        let verdict = self.untold().or(pending);
        if verdict.is_some() {
            was_told(self.record);
        }
        verdict
    }

    /// How a stream ends that the peer has not ended: with the verdict; and if that has been told, as in the kernel.
    pub(super) fn end_by_verdict(&self, end: Result<(), Errno>) -> Result<(), Errno> {
        let error = end.err().unwrap_or(Errno::CONNRESET);
        if !self.is_verdict(error) {
            return Err(error);
        }
        loop {
            let word = self.record.nic.error.load(Ordering::Relaxed);
            match kept(word) {
                Some(verdict) => return Err(verdict),
                None if end.is_ok() && word == TOLD && is_closed(self.socket) => return Ok(()),
                None if self.keep_instead_of(word, error) => return Err(error),
                None => {}
            }
        }
    }

    /// Before our own verdict, a reset: the kernel's comes first, and shutting the socket down would hide it.
    pub(in crate::conn) fn keep_reset(&self) {
        if !self.record.has(flag::NIC) {
            return;
        }
        let word = self.record.nic.error.load(Ordering::Relaxed);
        if kept(word).is_some() || word == TOLD && is_closed(self.socket) {
            return;
        }
        let pending = sockopt::socket_error(self.socket).ok();
        let pending = pending.and_then(Result::err);
        self.keep_instead_of(word, pending.unwrap_or(Errno::CONNRESET));
    }

    /// Unless another thread has kept one, or told it, since the word was read: two that find out at the same moment
    /// must not report two verdicts.
    fn keep_instead_of(&self, word: u64, error: Errno) -> bool {
        let (verdict, order) = (error.raw_os_error() as u64, Ordering::Relaxed);
        let slot = &self.record.nic.error;
        let keeps = slot.compare_exchange(word, verdict, order, order).is_ok();
        if keeps && word == 0 && !self.record.has(flag::BROKEN) {
            self.note_happening(Happening::Reset, 0, self.record.reason());
        }
        keeps
    }
}

/// The kernel has ended the connection, by an error: a peer that has merely closed leaves it in another state.
fn is_closed(socket: BorrowedFd<'_>) -> bool {
    tcp::info(socket).is_ok_and(|info| info.state == TCP_CLOSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::managed;
    use crate::testing::World;

    /// Another thread has kept the kernel's verdict, and told it, between a look at the word and a verdict of our own.
    #[test]
    fn a_verdict_that_was_told_meanwhile_is_no_reset() {
        let world = World::promoted();
        world.client.run(|| {
            let handle = managed(world.near.0).expect("a connection of ours");
            let conn = Conn::enter(handle).expect("it is managed");
            conn.keep_error(Errno::HOSTUNREACH);
            let seen = conn.record.nic.error.load(Ordering::Relaxed);
            assert_eq!(conn.report(Errno::PIPE), Errno::HOSTUNREACH);
            assert!(!conn.keep_instead_of(seen, Errno::CONNRESET));
            assert_eq!(conn.untold(), None);
            assert_eq!(conn.report(Errno::PIPE), Errno::PIPE);
        });
    }
}
