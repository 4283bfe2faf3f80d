//! Closing and shutting down: what the ring still holds must not change what the peer sees.

use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::c_int;
use netstack::ring::Look;
use rustix::io::Errno;
use rustix::net::{Shutdown, sockopt};

use super::ration::Ration;
use super::wait::sleep;
use super::{Conn, Handle};
use crate::runtime::deadline::Deadline;
use crate::runtime::sleep_state::Sleep;
use crate::state::record::flag;

/// How long closing waits for a peer that does not read.
const CLOSE_TIME: Duration = Duration::from_millis(200);
os::process_wide! {
    /// Peers that never read, however many, do not keep a program from its work by having it close connections.
    static WAITS: Ration = Ration::new();
}

/// Before the last holder closes: bytes that nobody has read reset the connection, as in the kernel.
pub fn last(handle: Handle) {
    if Conn::enter(handle).is_some_and(|conn| conn.close_on_link()) {
        return;
    }
    finish_resend(handle);
    let Some(conn) = Conn::enter(handle) else {
        return;
    };
    // What the kernel repeats has been read: it must not reset the connection.
    super::recv::settle(&conn);
    let unread = conn.ring_is_unread();
    if unread {
        let _ = sockopt::set_socket_linger(conn.socket, Some(Duration::ZERO));
    }
    if unread || conn.record.has(flag::BROKEN) {
        conn.reset_for_all();
    } else if conn.leave_the_rest() {
        return;
    }
    match unread && conn.record.is_unix() {
        true => say(&conn, rendezvous::rings::RESET),
        false => hint(&conn),
    }
    conn.end_for_all();
}

/// Before an exec that, if it succeeds, closes the last holder's number: what a fail-over owes the kernel must
/// not be lost with it.
pub fn by_exec(handle: Handle) {
    if Conn::enter(handle).is_some_and(|conn| conn.is_nic()) {
        finish_resend(handle);
    }
}

impl Conn<'_> {
    /// The next byte to read is in the ring.
    pub fn ring_is_unread(&self) -> bool {
        if !self.record.rx.gate.is_closed() {
            return false;
        }
        let Some(mut held) = self.lock_rx() else {
            return false;
        };
        let mut ahead = held.state().clone();
        let mut rx = self.receiver(&mut ahead);
        rx.peek = true;
        matches!(rx.look(), Ok(Look::Ring(1..)))
    }
}

/// The peer's spinners look at their kernel socket at once.
fn hint(conn: &Conn<'_>) {
    let both = conn.record.has(flag::SHUT) && conn.record.has(flag::SHUT_READING);
    let hint = if both {
        rendezvous::rings::SHUT_BOTH
    } else {
        rendezvous::rings::CLOSED
    };
    say(conn, hint);
}

fn say(conn: &Conn<'_>, hint: u32) {
    let producer = &conn.link.tx_shared().producer;
    producer.closed.store(hint, Ordering::Release);
}

/// The whole of a `shutdown` that ends our own direction: later sends find the kernel's EPIPE, and
/// those that wait for room find it at once. `None`: the kernel's business alone.
pub fn shutdown(handle: Handle, how: c_int) -> Option<Result<(), Errno>> {
    (super::readiness::told().shut_down)(handle);
    let ended = Conn::enter(handle).is_some_and(|conn| conn.end_on_link(how));
    if let (libc::SHUT_RD | libc::SHUT_RDWR, Some(conn)) = (how, Conn::enter(handle)) {
        conn.record.set(flag::SHUT_READING);
        if conn.record.is_unix() {
            // From here on the peer's sends fail with EPIPE, which only its kernel socket knows.
            conn.record.set(flag::PINNED);
            super::recv::ask_for_kernel(&conn);
        }
        if conn.record.has(flag::SHUT) {
            hint(&conn);
        }
    }
    let kernel = match how {
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return None,
    };
    if ended {
        Conn::enter(handle)?.stir();
        return Some(Ok(()));
    }
    finish_resend(handle);
    let conn = Conn::enter(handle)?;
    conn.record.set(flag::SHUT);
    hint(&conn);
    let result = rustix::net::shutdown(conn.socket, kernel);
    conn.stir();
    Some(result)
}

/// Bytes that must go through the kernel again have been sent as far as the program knows: they go
/// before the FIN. If the kernel is full the peer does not read; it is given a moment, no more, for
/// closing never blocks, and a peer that knows us finds the bytes in the ring all the same. (On another host it does
/// not, so there each has its moment.)
fn finish_resend(handle: Handle) {
    let deadline = Deadline::after(CLOSE_TIME);
    while let Some(conn) = Conn::enter(handle).filter(|conn| conn.record.tx.gate.is_closed()) {
        // A receiver that has asked for the kernel finds its bytes there, before the FIN.
        super::send::serve(&conn);
        let flushed = super::flush::flush(&conn);
        // [F21] A record that nobody has read would reset the connection.
        let heard = conn.hear_out();
        if flushed && heard || !(conn.is_nic() || WAITS.allows(os::clock::coarse_ms())) {
            return;
        }
        if deadline.passed() {
            return WAITS.was_in_vain(CLOSE_TIME, os::clock::coarse_ms());
        }
        let (me, socket) = (conn.me, conn.socket);
        let events = if flushed { libc::POLLIN } else { libc::POLLOUT };
        drop(conn);
        sleep(&Sleep::light(me), None, socket, events, deadline);
    }
}
