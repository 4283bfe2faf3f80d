//! Taking a direction under management: nobody is inside the kernel socket, so its byte counts are
//! exact, and from here on we keep them ourselves.

use netstack::ring::{RxState, TxState};

use super::Conn;
use crate::reason::Reason;
use crate::record::{flag, Role};
use crate::sys::tcp;

const TCP_ESTABLISHED: u8 = 1;

/// Closes the sending gate and takes the kernel's count over; `false` if somebody is inside.
#[cold]
pub fn begin_tx(conn: &Conn<'_>) -> bool {
    if conn.record.has(flag::PINNED) || !conn.record.tx.gate.close() {
        return conn.record.tx.gate.is_closed();
    }
    let Some(mut held) = conn.lock_tx() else {
        return give_up_tx(conn);
    };
    let Some(written) = bytes_written(conn) else {
        return give_up_tx(conn);
    };
    *held.state() = TxState::begin(written);
    true
}

fn give_up_tx(conn: &Conn<'_>) -> bool {
    pin(conn);
    conn.record.tx.gate.open();
    false
}

/// Closes the receiving gate, takes the kernel's count over, and wishes for a ring.
#[cold]
pub fn begin_rx(conn: &Conn<'_>) -> bool {
    if conn.record.has(flag::PINNED) || !conn.record.rx.gate.close() {
        return conn.record.rx.gate.is_closed();
    }
    let Some(mut held) = conn.lock_rx() else {
        return give_up_rx(conn);
    };
    let Some(read) = bytes_read(conn) else {
        return give_up_rx(conn);
    };
    *held.state() = RxState::begin(read);
    conn.receiver(held.state()).publish_start();
    drop(held);
    // Sleepers in epoll sets get their wires before the first ring byte can come.
    crate::epoll::arm_members(conn.handle);
    if let Some(mut held) = conn.lock_rx() {
        conn.receiver(held.state()).wish(true);
    }
    true
}

fn give_up_rx(conn: &Conn<'_>) -> bool {
    pin(conn);
    conn.record.rx.gate.open();
    false
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
