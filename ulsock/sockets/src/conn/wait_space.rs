//! Waiting for room to send: in the ring, or in the kernel socket.

use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::{POLLIN, POLLOUT, POLLRDHUP};

use super::Conn;
use super::kept::KeptConnection;
use super::send::{Lack, leave};
use super::wait::{WireSlot, Woken, paced, sleep};
use crate::runtime::chaos;
use crate::runtime::deadline::Deadline;
use crate::runtime::signal::Seen;
use crate::runtime::sleep_state::{Sleep, What};
use crate::runtime::spin;

/// A consumer that has not moved for so long is not reading: the ring grows, or the send spills.
pub const STALL: Duration = Duration::from_millis(5);

/// How often a send that waits for room in the kernel's Unix socket looks again.
const PACE: Duration = Duration::from_millis(20);

/// What tells of room in the ring.
#[derive(Clone, Copy, PartialEq)]
pub struct RoomSeen {
    head: u64,
    wish: u64,
}

impl RoomSeen {
    pub fn by(conn: &Conn<'_>) -> RoomSeen {
        let shared = conn.link.tx_shared();
        RoomSeen {
            head: shared.consumer.head.load(Ordering::Relaxed),
            wish: shared.wait.wish.load(Ordering::Relaxed),
        }
    }
}

/// What a send waits for.
pub struct Wanted {
    lack: Lack,
    /// So many bytes.
    room: u64,
    /// Before the look that found too little.
    before: RoomSeen,
}

impl Wanted {
    pub fn new(lack: Lack, room: usize, before: RoomSeen) -> Wanted {
        Wanted {
            lack,
            room: room as u64,
            before,
        }
    }
}

/// Waits until there is room again, or something to look at.
pub fn wait(
    conn: Conn<'_>,
    wanted: Wanted,
    deadline: Deadline,
    seen: Seen,
    kept: &mut KeptConnection,
) -> Woken {
    let me = conn.me;
    if seen.any_handler(me) {
        return Woken::Interrupted;
    }
    if wanted.lack == Lack::KernelSpace {
        kept.note(&conn);
        return sleep_for_kernel(conn, deadline, seen);
    }
    let moved = || RoomSeen::by(&conn) != wanted.before || me.deferred.any();
    if spin::until(&me.spin, || conn.peer_is_near(), moved) {
        return Woken::Look(0);
    }
    kept.note(&conn);
    sleep_for_space(conn, wanted.room, deadline, seen)
}

/// For room in the kernel socket. The poll of a Unix socket does not tell that its peer has shut down what it receives; the
/// next look does.
fn sleep_for_kernel(conn: Conn<'_>, deadline: Deadline, seen: Seen) -> Woken {
    let (me, socket) = (conn.me, conn.socket);
    let until = match conn.record.is_unix() {
        true => deadline.min(Deadline::after(PACE)),
        false => deadline,
    };
    drop(conn);
    match Sleep::prepare(me, seen) {
        Some(bed) => paced(sleep(&bed, None, socket, POLLOUT, until), deadline),
        None => Woken::Look(0),
    }
}

fn sleep_for_space(conn: Conn<'_>, want: u64, deadline: Deadline, seen: Seen) -> Woken {
    let (me, socket, nic) = (conn.me, conn.socket, conn.is_nic());
    let waiter = me
        .waiter()
        .filter(|waiter| conn.link.pair.hand_over(waiter));
    let Some(bed) = Sleep::prepare(me, seen) else {
        return Woken::Look(0);
    };
    let slot = WireSlot::take(&conn.record.tx.slots);
    let (Some(waiter), Some(slot)) = (waiter, slot) else {
        // No bell to be rung with: the kernel's way of waiting.
        leave(&conn);
        return Woken::Look(0);
    };
    if conn.link.theirs().shared.load(Ordering::Acquire) != 0 {
        // Whoever reads there may not have our bell.
        drop(slot);
        leave(&conn);
        return Woken::Look(0);
    }
    let (handle, slot) = (conn.handle, slot.keep());
    bed.hold(handle, What::Space(slot as u8));
    bed.lie_down(waiter);
    chaos::be_late();
    let (ready, capped) = arm_space(&conn, slot, waiter.number, want);
    // Signals must get through while asleep.
    drop(conn);
    let woken = if ready {
        Woken::Look(0)
    } else {
        let stall = if nic {
            Deadline::after(Duration::from_millis(super::nic::LOOK)).min(deadline)
        } else if capped {
            Deadline::after(STALL).min(deadline)
        } else {
            deadline
        };
        match sleep(
            &bed,
            Some(waiter),
            socket,
            if nic { POLLIN | POLLRDHUP } else { POLLRDHUP },
            stall,
        ) {
            Woken::TimedOut if !deadline.passed() => Woken::Look(0),
            woken => woken,
        }
    };
    drop(bed);
    if let (Woken::Look(events), Some(conn)) = (woken, Conn::enter(handle.here())) {
        conn.note_kernel_events(events);
        conn.look_after_link();
        conn.link.guard.note();
        conn.guard();
    }
    woken
}

/// Whether there is room already, or something else to do: then do not sleep; and whether the sleep
/// must end when the consumer stalls, because there is a larger place for the bytes.
fn arm_space(conn: &Conn<'_>, slot: usize, name: u32, want: u64) -> (bool, bool) {
    let Some(mut held) = conn.lock_tx() else {
        return (true, false);
    };
    let mut tx = conn.sender(held.state());
    if !tx.state.on_ring() || tx.wishes_change() {
        return (true, false);
    }
    let want = want.min(tx.size() / 2);
    tx.arm_space(slot, name, want);
    let forked = conn.link.theirs().shared.load(Ordering::Acquire) != 0;
    let ready = forked || tx.wishes_change() || tx.free(want).map_or(true, |free| free >= want);
    (ready, conn.may_grow_or_spill(&tx))
}
