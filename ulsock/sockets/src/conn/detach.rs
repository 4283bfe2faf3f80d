//! Parting from a peer process that has become another program, from a block that has served its promotion, or from
//! the pair of a parent that has left the connection to us alone: the connection lives on, and goes back to plain kernel
//! TCP, from where it can be upgraded anew. A peer that lives is told, and does the same.
//!
//! Other threads of this process may know the ring pair that goes. Those that are within a critical section are not
//! waited for: a later call tries again. With none in one, and both side locks held, nobody can move a byte, and who
//! gets a lock afterwards finds the gate open. Sleepers listen to the wires that go; they are rung before another
//! pair may come ([`flag::PARTED`]), when all who could still have gone to sleep there have. A call that could not be
//! finished elsewhere keeps the connection where it is ([`super::pinned_calls`]).
//!
//! With a peer process on this host only while no other thread knows us; never from within a handler that has
//! interrupted a wait.

use std::sync::atomic::Ordering;

use netstack::ring::tripwire::SLOTS;
use netstack::ring::{Look, RxState, TxState};

use super::begin::note_offsets;
use super::{Conn, Handle};
use crate::runtime::thread::{self, Thread};
use crate::state::control::Locked;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Record, State, flag};
use rendezvous::reason::Reason;

/// Calls between two looks at the peer, while the kernel carries both directions.
const CALLS: u32 = 16;
const NEVER: u32 = flag::PINNED | flag::PEER_FIN | flag::SHUT | flag::BROKEN;

/// After a call on a managed connection.
#[inline]
pub fn note_call(family: &'static ProcessGroup, handle: Handle) {
    let record = family.record(handle.number);
    if record.tx.is_on_ring() || record.rx.is_on_ring() {
        return;
    }
    let calls = record.calls.load(Ordering::Relaxed).wrapping_add(1);
    record.calls.store(calls, Ordering::Relaxed);
    if calls.is_multiple_of(CALLS) && !record.has(NEVER) {
        part(family, handle);
    }
}

#[cold]
fn part(family: &'static ProcessGroup, handle: Handle) {
    if Thread::me().is_none_or(|me| me.is_asleep() || me.in_handler()) {
        return;
    }
    let Some(mut locked) = Locked::take() else {
        return;
    };
    let record = family.record(handle.number);
    let may_part = Conn::enter(handle).is_some_and(|conn| {
        let others = conn.is_nic() && !record.has(flag::RECORD_MAY_COME | flag::JOINING);
        (others || thread::is_alone()) && is_over(&conn)
    });
    let Some(control) = locked.control().filter(|_| may_part) else {
        return;
    };
    (super::readiness::told().restore)(handle.number);
    if !Conn::enter(handle).is_some_and(|conn| make_plain(&conn)) {
        return (super::readiness::told().convert)(handle.number);
    }
    // Another thread may have added it to a set just now.
    (super::readiness::told().restore)(handle.number);
    if let Some(link) = family.set_link(handle.number, None) {
        link.part();
        control.retire_parted(link, handle);
    }
}

/// Under both locks: nobody else is inside, and whoever comes finds a plain connection.
fn make_plain(conn: &Conn<'_>) -> bool {
    let (Some(mut rx), Some(mut tx)) = (conn.lock_rx(), conn.lock_tx()) else {
        return false;
    };
    let (rx, tx) = (rx.state(), tx.state());
    let (record, all) = (conn.record, (1 << SLOTS) - 1);
    // Who found no slot sleeps where nobody would ring for it.
    let all_hear = record.rx.slots.load(Ordering::Acquire) & all != all;
    let is_free = all_hear && thread::quiet() && record.midway.load(Ordering::Acquire) == 0;
    if !is_free || !has_nothing_left(conn, tx, rx) {
        return false;
    }
    // A direction that was not begun has been counted there all the time.
    let sent = record.tx.gate.is_closed().then_some(tx.written);
    let received = record.rx.gate.is_closed().then_some(rx.pos);
    record.unix.put(sent, received);
    (*tx, *rx) = (TxState::default(), RxState::default());
    begin_again(record);
    record.set_state(State::Plain);
    true
}

/// The peer process is gone from this pair, or the pair is a parent's; nothing is left in the rings, and nobody else
/// uses them.
fn is_over(conn: &Conn<'_>) -> bool {
    if conn.record.procs.load(Ordering::Acquire) != 1 || !is_of_no_use(conn) {
        return false;
    }
    let (Some(mut rx), Some(mut tx)) = (conn.lock_rx(), conn.lock_tx()) else {
        return false;
    };
    has_nothing_left(conn, tx.state(), rx.state())
}

fn is_of_no_use(conn: &Conn<'_>) -> bool {
    let pair = &conn.link.pair;
    if !pair.is_mine() {
        return !conn.is_nic();
    }
    pair.receive();
    pair.is_dead() || conn.needs_another_block() || conn.link.other_has_parted()
}

/// Under both locks.
fn has_nothing_left(conn: &Conn<'_>, tx: &TxState, rx: &mut RxState) -> bool {
    const ALL: Look = Look::Kernel {
        skip: 0,
        limit: u64::MAX,
    };
    let (written, read) = (tx.written, rx.pos);
    if peer_may_enter(conn) && !conn.receiver(rx).stays_on_kernel() {
        return false;
    }
    !tx.on_ring()
        && !tx.must_resend()
        && conn.receiver(rx).look() == Ok(ALL)
        // Both ends of a link know how far the streams are; a peer that has become another program does not.
        && (!conn.is_nic() || note_offsets(conn, written, read))
}

/// A peer that lives, and has not parted itself, must not enter a ring that nobody will read. That we have ended the pair,
/// because it broke the protocol, says nothing of that.
fn peer_may_enter(conn: &Conn<'_>) -> bool {
    let pair = &conn.link.pair;
    let has_left = pair.has_lost_peer() || conn.link.other_has_parted();
    !pair.is_mine() || !conn.is_nic() && !has_left
}

/// Under both locks.
fn begin_again(record: &Record) {
    record.set(flag::PARTED);
    record.tx.gate.open();
    record.rx.gate.open();
    record.calls.store(0, Ordering::Relaxed);
    record.next_look.store(0, Ordering::Relaxed);
    record.clear(flag::AWAY | flag::FAIL_OVER);
    record.nic.begin_again();
    record.set_reason(Reason::Young);
}
