//! Connections that are left alone: they are the kernel's for good, and never were anybody else's. A data call on
//! them costs the hook one load. So nobody counts what they move; the kernel does, and is asked.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use crate::state::record::{Counts, Record, flag};
use crate::state::table;
use os::diag;
use os::tcp;
use os::tcp::Passed;

/// From here on it is left alone. It stays on the kernel, and was never managed.
pub fn leave(number: u32, record: &Record) {
    let Some(fd) = crate::state::process_group::fd_of(number) else {
        return;
    };
    // SAFETY: the number was taken from our own table just now.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    // Who asks the kernel about it, from another process, needs both.
    if record.local().is_none()
        && let (Ok(local), Ok(peer)) = (tcp::local_addr(socket), tcp::peer_addr(socket))
    {
        record.set_addresses(local, peer);
    }
    table::leave_alone(fd, number);
    // Another thread has closed it meanwhile, and the next connection has the same number and record.
    if !is_left(record) {
        table::attend(fd, number);
    }
}

pub fn is_left(record: &Record) -> bool {
    // The kernel does not count what a Unix socket moves.
    record.stays_on_kernel() && !record.has(flag::USED) && !record.is_unix()
}

/// Before the last number of one is closed, and before the living are reported.
pub fn count(record: &Record, fd: RawFd) {
    // SAFETY: the program has not closed it yet, or the call fails.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    if let Ok(passed) = tcp::passed(socket) {
        note(&record.tx.counts, passed.sent, passed.packets_sent);
        note(&record.rx.counts, passed.received, passed.packets_received);
    }
}

/// What another process's connection has moved so far, if it is in our network namespace.
pub fn of_another(local: Option<SocketAddr>, peer: Option<SocketAddr>) -> Option<Passed> {
    diag::passed(&local?, &peer?).ok().flatten()
}

fn note(counts: &Counts, bytes: u64, packets: u32) {
    counts.kernel_bytes.store(bytes, Ordering::Relaxed);
    let messages = counts.messages.load(Ordering::Relaxed);
    let messages = messages.max(packets.into());
    counts.messages.store(messages, Ordering::Relaxed);
}
