//! Parting from a peer process that has become another program: the connection lives on, and goes
//! back to plain kernel TCP, from where it can be upgraded anew.
//!
//! Only while no other thread of this process knows us, and not from within a handler that has
//! interrupted a wait: a sleeper listens to the wires of the ring pair that goes.

use std::sync::atomic::Ordering;

use netstack::ring::{Look, RxState, TxState};

use super::begin::note_offsets;
use super::{Conn, Handle};
use crate::family::Family;
use crate::process::Locked;
use crate::reason::Reason;
use crate::record::{flag, Record, State};
use crate::thread::{self, Thread};

/// Calls between two looks at the peer, while the kernel carries both directions.
const CALLS: u32 = 16;
const NEVER: u32 = flag::PINNED | flag::PEER_FIN | flag::SHUT | flag::BROKEN;

/// After a call on a managed connection.
#[inline]
pub fn note_call(family: &'static Family, handle: Handle) {
    let record = family.record(handle.number);
    let carried = |carrier: u8| carrier != 0;
    if carried(record.tx.carrier.load(Ordering::Relaxed))
        || carried(record.rx.carrier.load(Ordering::Relaxed))
    {
        return;
    }
    let calls = record.calls.load(Ordering::Relaxed).wrapping_add(1);
    record.calls.store(calls, Ordering::Relaxed);
    if calls.is_multiple_of(CALLS) && !record.has(NEVER) {
        part(family, handle);
    }
}

#[cold]
fn part(family: &'static Family, handle: Handle) {
    let alone = Thread::me().is_some_and(|me| !me.is_asleep()) && thread::is_alone();
    let Some(mut locked) = alone.then(Locked::take).flatten() else {
        return;
    };
    let record = family.record(handle.number);
    let is_over = Conn::enter(handle).is_some_and(|conn| is_over(&conn));
    let Some(control) = locked.control().filter(|_| is_over) else {
        return;
    };
    crate::epoll::restore(handle.number);
    record.set_state(State::Plain);
    crate::memory::barrier_in_all_threads();
    if !thread::is_alone() {
        record.set_state(State::Managed);
        return crate::epoll::convert(handle.number);
    }
    begin_again(record);
    if let Some(link) = family.set_link(handle.number, None) {
        control.retire(link);
    }
}

/// The peer process is gone from this pair, nothing is left in the rings, and nobody else uses them.
fn is_over(conn: &Conn<'_>) -> bool {
    if conn.record.procs.load(Ordering::Acquire) != 1 || !conn.link.pair.is_mine() {
        return false;
    }
    conn.link.pair.receive();
    if !conn.link.pair.is_dead() && !conn.needs_another_block() {
        return false;
    }
    let (Some(mut rx), Some(mut tx)) = (conn.lock_rx(), conn.lock_tx()) else {
        return false;
    };
    const ALL: Look = Look::Kernel {
        skip: 0,
        limit: u64::MAX,
    };
    let (written, read) = (tx.state().written, rx.state().pos);
    !tx.state().on_ring()
        && !tx.state().must_resend()
        && conn.receiver(rx.state()).look() == Ok(ALL)
        // Both ends of a link know how far the streams are; a peer that has become another program does not.
        && (!conn.is_nic() || note_offsets(conn, written, read))
}

fn begin_again(record: &Record) {
    // SAFETY: no other thread and no other process uses this record (`is_over`, `is_alone`).
    unsafe {
        *record.tx.state.get() = TxState::default();
        *record.rx.state.get() = RxState::default();
    }
    record.tx.gate.open();
    record.rx.gate.open();
    record.calls.store(0, Ordering::Relaxed);
    record.next_look.store(0, Ordering::Relaxed);
    record.clear(flag::AWAY | flag::FAIL_OVER);
    record.nic.begin_again();
    record.set_reason(Reason::Young);
}
