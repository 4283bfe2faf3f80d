//! The usual case of a send and of a receive, in a straight line: a small message, a connection on
//! its ring, bytes or room there already. Whatever is unusual is left to [`super::send`] and
//! [`super::recv`], with nothing done yet. Not inlined: calls that are not ours must not pay for it.

use std::sync::atomic::Ordering;

use libc::{c_int, MSG_DONTWAIT, MSG_NOSIGNAL};
use netstack::ring::{Sink, Source};

use super::lock::Held;
use super::{Conn, Handle};
use crate::chaos;
use crate::record::{flag, Counts};

/// A larger message costs its copy.
const MOST: usize = 4096;
/// Flags that change nothing about a call that need not wait.
const HARMLESS: c_int = MSG_DONTWAIT | MSG_NOSIGNAL;
/// Who has one of these may have to change carriers, or to fail.
const UNUSUAL: u32 = flag::PINNED | flag::PEER_FIN | flag::SHUT | flag::BROKEN;

/// Sends all `len` bytes; `false`: none.
#[inline(never)]
pub fn send(handle: Handle, out: &mut impl Source, len: usize, flags: c_int) -> bool {
    if len > MOST || flags & !HARMLESS != 0 || chaos::is_on() {
        return false;
    }
    let Some(conn) = Conn::enter(handle) else {
        return false;
    };
    let side = &conn.record.tx;
    if !side.gate.is_closed() || conn.peer_closed() {
        return false;
    }
    let Some(mut held) = Held::try_take(side, conn.me) else {
        return false;
    };
    conn.glance_before_send();
    let mut tx = conn.sender(held.state());
    if conn.record.has(UNUSUAL) || tx.wishes_change() {
        return false;
    }
    let Some(slots) = tx.put(len as u64, out) else {
        return false;
    };
    Counts::add(&side.counts.messages, 1);
    Counts::add(&side.counts.ring_bytes, len as u64);
    // Once more after publishing, as in the long way.
    if slots != 0 || tx.wishes_change() {
        conn.follow_up(&mut tx, slots);
    }
    true
}

/// Receives up to `len` bytes that are there.
#[inline(never)]
pub fn recv(handle: Handle, into: &mut impl Sink, len: usize, flags: c_int) -> Option<usize> {
    if flags & !HARMLESS != 0 || chaos::is_on() {
        return None;
    }
    let conn = Conn::enter(handle)?;
    let (side, record) = (&conn.record.rx, conn.record);
    if !side.gate.is_closed()
        || record.has(flag::BROKEN | flag::SHUT_READING)
        || !record.has(flag::UPGRADED)
        || conn.lowat() > 1
    {
        return None;
    }
    let gather = &conn.me.gather;
    gather.pause(record);
    let mut held = Held::try_take(side, conn.me)?;
    let Some((n, slots)) = conn.receiver(held.state()).take(len as u64, into) else {
        gather.found_nothing();
        return None;
    };
    gather.found(record, n as usize, len);
    Counts::add(&side.counts.messages, 1);
    Counts::add(&side.counts.ring_bytes, n);
    if slots != 0 {
        conn.ring_space(slots);
    }
    if side.carrier.load(Ordering::Relaxed) == 0 {
        conn.note_carriers(None, Some(held.state()));
    }
    Some(n as usize)
}
