//! Taking a direction under management: nobody is inside the kernel socket, so its byte counts are
//! exact, and from here on we keep them ourselves. Until then calls go through the gate one by one,
//! without sleeping inside; who sleeps outside has a bell.

use netstack::ring::{RxState, TxState};

use super::Conn;
use crate::reason::Reason;
use crate::record::{flag, Role};
use crate::sys::tcp;

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
    if conn.record.has(flag::PINNED) || !gate.close() {
        return gate.is_closed();
    }
    match bytes_written(conn) {
        Some(written) => *held.state() = TxState::begin(written),
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
    if conn.record.has(flag::PINNED) || !gate.close() {
        return gate.is_closed();
    }
    let Some(read) = bytes_read(conn) else {
        pin(conn);
        gate.open();
        return false;
    };
    *held.state() = RxState::begin(read);
    conn.receiver(held.state()).publish_start();
    drop(held);
    // Sleepers in epoll sets get their wires before the first ring byte can come.
    crate::epoll::touch(conn.handle);
    if let Some(mut held) = conn.lock_rx() {
        conn.receiver(held.state()).wish(true);
    }
    true
}

/// The counts cannot be had (a FIN under way, urgent data): kernel TCP for good.
fn pin(conn: &Conn<'_>) {
    conn.record.set(flag::PINNED);
    conn.record.set_reason(Reason::PeerGone);
}

/// tcp_info's bytes_acked counts the SYN on the side that connected; what is not acknowledged yet
/// is in the queue. Both are read until they belong together.
fn bytes_written(conn: &Conn<'_>) -> Option<u64> {
    let syn = u64::from(conn.record.role() == Role::Connected);
    for _ in 0..100 {
        let before = tcp::info(conn.socket)
            .ok()
            .filter(|info| info.state == TCP_ESTABLISHED)?;
        let queued = u64::from(tcp::outq(conn.socket).ok()?);
        let after = tcp::info(conn.socket).ok()?;
        if before.bytes_acked == after.bytes_acked {
            return (after.bytes_acked + queued).checked_sub(syn);
        }
    }
    None
}

fn bytes_read(conn: &Conn<'_>) -> Option<u64> {
    for _ in 0..100 {
        let before = tcp::info(conn.socket)
            .ok()
            .filter(|info| info.state == TCP_ESTABLISHED)?;
        let queued = u64::from(tcp::inq(conn.socket).ok()?);
        let after = tcp::info(conn.socket)
            .ok()
            .filter(|info| info.state == TCP_ESTABLISHED)?;
        if before.bytes_received == after.bytes_received {
            return after.bytes_received.checked_sub(queued);
        }
    }
    None
}
