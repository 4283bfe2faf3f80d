//! Taking a direction under management: nobody is inside the kernel socket, so its byte counts are
//! exact, and from here on we keep them ourselves. Until then calls go through the gate one by one,
//! without sleeping inside; who sleeps outside has a bell.

use std::sync::atomic::{AtomicU64, Ordering};

use netstack::ring::{RxState, TxState};

use super::Conn;
use crate::state::orders;
use crate::state::record::{Role, State, flag};
use crate::state::{capture, process_group};
use os::tcp;
use rendezvous::reason::Reason;

const TCP_ESTABLISHED: u8 = 1;

/// Closes the sending gate and takes the kernel's count over; `false` if somebody is inside. Under
/// the lock: who finds the gate closed and takes the lock finds the counts too.
#[cold]
pub fn begin_tx(conn: &Conn<'_>) -> bool {
    // First the other direction: once our answers leave the kernel, so must the peer's questions, or
    // Nagle's algorithm and delayed acknowledgements would hold them back for 40 ms.
    begin_rx(conn);
    let gate = &conn.record.tx.gate;
    let Some(mut held) = conn.lock_tx() else {
        return false;
    };
    if has_parted(conn) || conn.record.has(flag::PINNED) || !gate.close() {
        return gate.is_closed();
    }
    match bytes_written(conn) {
        Some(written) => {
            let beyond = conn.record.nic.sent_beyond.load(Ordering::Relaxed);
            *held.state() = TxState::begin(written.wrapping_add(beyond));
            if let Some(family) = process_group::own() {
                capture::note_begin(family, conn.record);
            }
        }
        None => {
            pin(conn);
            gate.open();
        }
    }
    gate.is_closed()
}

/// Closes the receiving gate, takes the kernel's count over, and wishes for a ring.
#[cold]
pub fn begin_rx(conn: &Conn<'_>) -> bool {
    let gate = &conn.record.rx.gate;
    let Some(mut held) = conn.lock_rx() else {
        return false;
    };
    if has_parted(conn) || conn.record.has(flag::PINNED) || !gate.close() {
        return gate.is_closed();
    }
    let Some(read) = bytes_read(conn) else {
        pin(conn);
        gate.open();
        return false;
    };
    let beyond = conn.record.nic.read_beyond.load(Ordering::Relaxed);
    *held.state() = RxState::begin(read.wrapping_add(beyond));
    conn.receiver(held.state()).publish_start();
    drop(held);
    // Sleepers in epoll sets get their wires before the first ring byte can come.
    (super::readiness::told().touch)(conn.handle);
    if let Some(mut held) = conn.lock_rx()
        && !orders::keep_on_kernel(conn.record)
    {
        conn.receiver(held.state()).wish(true);
    }
    conn.link.confirm_late();
    true
}

/// Before what we have counted ourselves goes back to the kernel, which will be asked again: how much further
/// the streams are by then. `false`: the kernel's counts cannot be had. Under both locks.
pub fn note_offsets(conn: &Conn<'_>, written: u64, read: u64) -> bool {
    let (record, nic) = (conn.record, &conn.record.nic);
    let note = |begun: bool, word: &AtomicU64, offset: u64, counted: Option<u64>| {
        if let (true, Some(counted)) = (begun, counted) {
            word.store(offset.wrapping_sub(counted), Ordering::Relaxed);
        }
        !begun || counted.is_some()
    };
    note(
        record.tx.gate.is_closed(),
        &nic.sent_beyond,
        written,
        bytes_written(conn),
    ) && note(
        record.rx.gate.is_closed(),
        &nic.read_beyond,
        read,
        bytes_read(conn),
    )
}

/// Another thread has parted the connection from this ring pair since we looked. Under a side lock.
fn has_parted(conn: &Conn<'_>) -> bool {
    conn.record.state() != State::Managed
}

/// The counts cannot be had (a FIN under way, urgent data): kernel TCP for good.
fn pin(conn: &Conn<'_>) {
    conn.record.set(flag::PINNED);
    conn.record.set_reason(Reason::PeerGone);
}

/// tcp_info's bytes_acked counts the SYN on the side that connected.
fn bytes_written(conn: &Conn<'_>) -> Option<u64> {
    if conn.record.is_unix() {
        return Some(conn.record.unix.sent());
    }
    let syn = u64::from(conn.record.role() == Role::Connected);
    let given = tcp::given(conn.socket).filter(|_| is_established(conn));
    given?.checked_sub(syn)
}

/// A FIN would be counted.
fn bytes_read(conn: &Conn<'_>) -> Option<u64> {
    if conn.record.is_unix() {
        return Some(conn.record.unix.received());
    }
    tcp::taken(conn.socket).filter(|_| is_established(conn))
}

fn is_established(conn: &Conn<'_>) -> bool {
    tcp::info(conn.socket).is_ok_and(|info| info.state == TCP_ESTABLISHED)
}
