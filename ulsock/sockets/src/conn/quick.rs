//! The usual case of a send and of a receive, in a straight line: a small message, a connection on
//! its ring, bytes or room there already. Whatever is unusual is left to [`super::send`] and
//! [`super::recv`], with nothing done yet.
//!
//! A small message costs instructions, so everything is inlined down to the ring, and a [`Conn`] is
//! put together only where the way leads on. What it costs besides is cache lines that are far away:
//! a thread that goes from one connection to another asks for all of them at once.

use std::sync::atomic::Ordering;

use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, c_int};
use netstack::ring::{Receiver, RxState, Sender, Sink, Slots, Source, TxState};

use super::lock::SideGuard;
use super::{Conn, Handle, nic};
use crate::runtime::chaos;
use crate::runtime::thread::{self, Critical, Thread};
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Counts, Record, State, flag};
use crate::state::ring_pair::RingPair;
use os::fetch::fetch_to_read;
use os::fetch::fetch_to_write;
use os::fetch::fetch_two_to_write;

/// A larger message costs its copy.
pub const MOST_QUICK: usize = 4096;
/// Flags that change nothing about a call that need not wait.
const FAST_FLAGS: c_int = MSG_DONTWAIT | MSG_NOSIGNAL;
/// Who has one of these may have to change carriers, or to fail.
const SLOW_STATE: u32 = flag::PINNED
    | flag::PEER_FIN
    | flag::SHUT
    | flag::BROKEN
    | flag::AWAY
    | flag::FAIL_OVER
    | flag::ORDERED
    | flag::COPIED;
/// What matters to a receiver, and how it is usually.
const READING: u32 = flag::BROKEN | flag::SHUT_READING | flag::UPGRADED | flag::ORDERED;

/// A connection as this way needs it, within a critical section.
#[derive(Clone, Copy)]
struct FastPath<'a> {
    number: u32,
    fd: c_int,
    record: &'a Record,
    link: &'a RingPair,
    me: &'static Thread,
}

/// Sends all `len` bytes; `false`: none.
#[inline(always)]
pub fn send(
    family: &ProcessGroup,
    record: &Record,
    handle: Handle,
    out: &mut impl Source,
    len: usize,
    flags: c_int,
) -> bool {
    if len > MOST_QUICK || flags & !FAST_FLAGS != 0 || chaos::is_on() {
        return false;
    }
    let Some(me) = Thread::me() else {
        return false;
    };
    let critical = Critical::of(me);
    let again = me.is_same_sender(record);
    if !again {
        fetch_two_to_write(&record.tx);
    }
    let conn = FastPath::find(family, record, handle, me);
    let sent = conn.and_then(|conn| conn.send(out, len, again));
    critical.end();
    sent.is_some()
}

/// Receives up to `len` bytes that are there.
#[inline(always)]
pub fn recv(
    family: &ProcessGroup,
    record: &Record,
    handle: Handle,
    into: &mut impl Sink,
    len: usize,
    flags: c_int,
) -> Option<usize> {
    if flags & !FAST_FLAGS != 0 || chaos::is_on() {
        return None;
    }
    let me = Thread::me()?;
    let critical = Critical::of(me);
    let came = FastPath::find(family, record, handle, me).and_then(|conn| conn.recv(into, len));
    critical.end();
    came
}

impl<'a> FastPath<'a> {
    /// `None` when the record is not managed (any more).
    #[inline(always)]
    fn find(
        family: &'a ProcessGroup,
        record: &'a Record,
        handle: Handle,
        me: &'static Thread,
    ) -> Option<FastPath<'a>> {
        if !handle.is_of(record) || record.state() != State::Managed {
            return None;
        }
        Some(FastPath {
            number: handle.number,
            fd: handle.fd,
            record,
            link: family.link(handle.number)?,
            me,
        })
    }

    #[inline(always)]
    fn send(self, out: &mut impl Source, len: usize, again: bool) -> Option<()> {
        let (side, link) = (&self.record.tx, self.link);
        if !again {
            self.fetch_for_send();
        }
        if !side.gate.is_closed() || link.peer_closed() {
            return None;
        }
        let mut held = SideGuard::try_take(side, self.me, self.is_alone())?;
        let mut tx = Sender {
            shared: link.tx_shared(),
            memory: &link.tx,
            state: held.state(),
        };
        if !again {
            tx.fetch();
        }
        let sends = side.counts.messages.load(Ordering::Relaxed);
        if sends >= side.glances.load(Ordering::Relaxed) {
            look_for_end(self.record, link, self.number, self.fd);
        }
        if self.record.has(SLOW_STATE) || tx.wishes_change() {
            return None;
        }
        let slots = tx.put(len as u64, out, again)?;
        Counts::add(&side.counts.messages, 1);
        Counts::add(&side.counts.ring_bytes, len as u64);
        if link.is_nic {
            nic::has_sent(link);
        }
        // Once more after publishing, as in the long way.
        if slots != 0 || tx.wishes_change() {
            follow_up(self.record, link, self.number, self.fd, held.state(), slots);
            drop(held);
            guard(self.record, link, self.number, self.fd);
        }
        Some(())
    }

    #[inline(always)]
    fn recv(self, into: &mut impl Sink, len: usize) -> Option<usize> {
        let (side, link) = (&self.record.rx, self.link);
        if !side.gate.is_closed()
            || self.record.those(READING) != flag::UPGRADED
            || self.record.recv_lowat.load(Ordering::Relaxed) > 1
        {
            return None;
        }
        let gather = &self.me.gather;
        if !gather.pause(self.record, || self.record.place()) {
            self.fetch_for_recv();
        }
        let mut held = SideGuard::try_take(side, self.me, self.is_alone())?;
        let mut rx = Receiver {
            shared: link.rx_shared(),
            memory: &link.rx,
            state: held.state(),
            peek: false,
        };
        let Some((n, slots)) = rx.take(len as u64, into) else {
            gather.found_nothing();
            return None;
        };
        gather.found(self.record.place(), n as usize, len);
        Counts::add(&side.counts.messages, 1);
        Counts::add(&side.counts.ring_bytes, n);
        if slots != 0 || !side.is_on_ring() {
            let state = held.state();
            ring_space(self.record, link, self.number, self.fd, state, slots);
        }
        Some(n as usize)
    }

    /// May nobody else take its locks? Then that needs no locked instruction.
    #[inline(always)]
    fn is_alone(&self) -> bool {
        thread::is_single() && !self.record.has(flag::SHARED)
    }

    /// The thread comes from another connection: this one's lines are far away, and locked
    /// instructions would wait for them one by one.
    #[inline(always)]
    fn fetch_for_send(&self) {
        let shared = self.link.tx_shared();
        fetch_to_read(&self.link.tx);
        fetch_to_read(&self.link.rx_shared().producer);
        fetch_to_write(&shared.producer);
        fetch_to_read(&shared.wait);
    }

    #[inline(always)]
    fn fetch_for_recv(&self) {
        let shared = self.link.rx_shared();
        fetch_to_write(&shared.consumer);
        fetch_to_read(&shared.room);
    }
}

// Where the way leads on. Few arguments, all in registers: the usual case keeps nothing ready for them.

#[cold]
#[inline(never)]
fn look_for_end(record: &Record, link: &RingPair, number: u32, fd: c_int) {
    if let Some(conn) = Conn::of(Handle::of(record, number, fd), record, link) {
        conn.look_for_end(record.tx.counts.messages.load(Ordering::Relaxed));
    }
}

#[cold]
#[inline(never)]
fn follow_up(
    record: &Record,
    link: &RingPair,
    number: u32,
    fd: c_int,
    state: &mut TxState,
    slots: Slots,
) {
    if let Some(conn) = Conn::of(Handle::of(record, number, fd), record, link) {
        conn.follow_up(&mut conn.sender(state), slots);
    }
}

/// The peer was woken: the guard has something to count.
#[cold]
#[inline(never)]
fn guard(record: &Record, link: &RingPair, number: u32, fd: c_int) {
    if !link.guard.is_due() {
        return;
    }
    if let Some(conn) = Conn::of(Handle::of(record, number, fd), record, link) {
        conn.guard();
    }
}

/// Wakes a sender who waits for space, and notes the carrier.
#[cold]
#[inline(never)]
fn ring_space(
    record: &Record,
    link: &RingPair,
    number: u32,
    fd: c_int,
    state: &mut RxState,
    slots: Slots,
) {
    if let Some(conn) = Conn::of(Handle::of(record, number, fd), record, link) {
        conn.ring_space(slots);
        conn.note_carriers(None, Some(state));
    }
}
