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

/// The program has been told this, past our own calls.
fn was_told(record: &Record) {
    record.nic.error.store(TOLD, Ordering::Relaxed);
}

impl Conn<'_> {
    /// Seen where no call can report it.
    pub fn keep_error(&self, error: Errno) {
        if !is_verdict(error) {
            return;
        }
        let word = &self.record.nic.error;
        if word.load(Ordering::Relaxed) == 0 && !self.record.has(flag::BROKEN) {
            self.note_happening(Happening::Reset, 0, self.record.reason());
        }
        if matches!(word.load(Ordering::Relaxed), 0 | TOLD) {
            word.store(error.raw_os_error() as u64, Ordering::Relaxed);
        }
    }

    /// A verdict that nobody has been told.
    pub(in crate::conn) fn untold(&self) -> Option<Errno> {
        match self.record.nic.error.load(Ordering::Relaxed) {
            0 | TOLD => None,
            kept => Some(Errno::from_raw_os_error(kept as i32)),
        }
    }

    /// What a call reports that has failed like this: the verdict, if nobody has been told.
    pub(in crate::conn) fn report(&self, error: Errno) -> Errno {
        if !is_verdict(error) && error != Errno::PIPE {
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
        let verdict = self.untold().or(pending);
        if verdict.is_some() {
            was_told(self.record);
        }
        verdict
    }

    /// How a stream ends that the peer has not ended: with the verdict; and if that has been told, as in the kernel.
    pub(super) fn end_by_verdict(&self, end: Result<(), Errno>) -> Result<(), Errno> {
        if end.is_ok() && self.is_over() {
            return Ok(());
        }
        let error = end.err().unwrap_or(Errno::CONNRESET);
        self.keep_error(error);
        Err(self.untold().unwrap_or(error))
    }

    /// Before our own verdict, a reset: the kernel's comes first, and shutting the socket down would hide it.
    pub(in crate::conn) fn keep_reset(&self) {
        if !self.record.has(flag::NIC) || self.is_over() {
            return;
        }
        let pending = sockopt::socket_error(self.socket).ok();
        let pending = pending.and_then(Result::err);
        self.keep_error(pending.unwrap_or(Errno::CONNRESET));
    }

    /// The verdict that ended the connection has been told.
    fn is_over(&self) -> bool {
        self.record.nic.error.load(Ordering::Relaxed) == TOLD && is_closed(self.socket)
    }
}

/// The kernel has ended the connection, by an error: a peer that has merely closed leaves it in another state.
fn is_closed(socket: BorrowedFd<'_>) -> bool {
    tcp::info(socket).is_ok_and(|info| info.state == TCP_CLOSE)
}
