//! Waiting for data to receive, from either carrier.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::{POLLIN, POLLOUT, POLLPRI, POLLRDHUP, c_short};
use netstack::ring::{Look, RxState};

use super::kept::KeptConnection;
use super::lock::SideGuard;
use super::recv::{ask_for_kernel, prefer_ring};
use super::wait::{WireSlot, Woken, paced, sleep};
use super::watch::Watch;
use super::{Conn, Handle, Progress, managed, send};
use crate::conn::reclaim::ReclaimTimer;
use crate::runtime::awake::{self, Waited};
use crate::runtime::chaos;
use crate::runtime::deadline::Deadline;
use crate::runtime::signal::Seen;
use crate::runtime::sleep_state::{Sleep, What};
use crate::runtime::spin;
use crate::state::record::flag;
use os::poll::has_something;
use shm::waiter;

/// How often a peek that wants more than is there looks again: what is left in the kernel's queue, now
/// or behind what the ring holds, keeps its poll from telling about more. And who has no bell for what the link brings.
const PACE: Duration = Duration::from_millis(1);

/// What a receive waits for.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Where the sender was before the look that found too little: a message that came between that look and the wait
    /// must end it at once, not when its time is over.
    pub before: Progress,
    /// So many bytes.
    pub least: u64,
    /// So many are there and were left there, by a peek.
    pub there: u64,
    /// An urgent byte is something to look at: the receive passes over it, or ends in front of it. Not for
    /// a peek, which leaves it there and would be woken by it for ever.
    pub urgent: bool,
}

/// Waits until the stream has moved on by as many bytes as are wanted, or there is something else to
/// look at.
pub fn wait(
    conn: Conn<'_>,
    wanted: Wanted,
    deadline: Deadline,
    seen: Seen,
    kept: &mut KeptConnection,
) -> Woken {
    if seen.any_handler(conn.me) {
        return Woken::Interrupted;
    }
    let me = conn.me;
    let moved = || conn.progress() != wanted.before || me.deferred.any();
    let on_ring = conn.record.rx.is_on_ring();
    if on_ring && spin::until(&me.spin, || conn.peer_is_near(), moved) {
        return Woken::Look(0);
    }
    if !on_ring && wanted.there == 0 && conn.kernel_has_something(moved) {
        return Woken::Look(0);
    }
    kept.note(&conn);
    sleep_for_data(conn, wanted, on_ring, deadline, seen)
}

/// Waits awake for what comes by the ring, as long as a receive would before it sleeps, or until `stop` says so; whether
/// something has come.
pub fn wait_awake(fd: RawFd, stop: &dyn Fn() -> bool) -> bool {
    awake(fd, |conn, moved| {
        let me = conn.me;
        let stops = || me.deferred.any() || stop();
        spin::until_or(&me.spin, || conn.peer_is_near(), moved, stops)
    })
}

/// The same for an answer that is under way already, if there is one: for some two microseconds.
pub fn wait_briefly(fd: RawFd) -> bool {
    awake(fd, |conn, moved| {
        let me = conn.me;
        let ends = || moved() || me.deferred.any();
        spin::briefly(&me.spin, || conn.peer_is_near(), ends) && moved()
    })
}

/// Waits so for bytes in a connection's ring, if there are none already.
fn awake(fd: RawFd, wait: impl FnOnce(&Conn, &dyn Fn() -> bool) -> bool) -> bool {
    let Some(conn) = managed(fd).and_then(Conn::enter) else {
        return false;
    };
    if !conn.record.rx.is_on_ring() {
        return false;
    }
    let before = conn.progress();
    // What came before that must not be waited for.
    let is_there = |mut held: SideGuard<'_, RxState>| something_there(&conn, held.state(), 0);
    if conn.lock_rx().is_none_or(is_there) {
        return true;
    }
    wait(&conn, &|| conn.progress() != before)
}

/// Is the connection on its ring as usual, with nothing in it? Then only the kernel socket could know more, and a caller that
/// hears of its events need not ask it. The protocol's own word counts, under its lock: what a look has found since the last
/// call, as an epoll set does, is not in the record.
pub fn is_empty_ring(fd: RawFd) -> bool {
    const UNUSUAL: u32 = flag::PINNED
        | flag::PEER_FIN
        | flag::SHUT_READING
        | flag::BROKEN
        | flag::AWAY
        | flag::LOOK
        | flag::FAIL_OVER;
    let Some(conn) = managed(fd).and_then(Conn::enter) else {
        return false;
    };
    let rx = &conn.record.rx;
    let is_usual = rx.gate.is_closed()
        && rx.is_on_ring()
        && !conn.is_nic()
        && !conn.peer_closed()
        && !conn.record.has(UNUSUAL);
    is_usual
        && conn
            .lock_rx()
            .is_some_and(|mut held| conn.receiver(held.state()).is_at_end_of_ring())
}

/// What was too little may be enough now: whoever of this process waits for it looks again.
pub fn wake_readers(handle: Handle) {
    if let Some(conn) = Conn::enter(handle) {
        waiter::ring_all(&conn.link.rx_shared().wait.data);
    }
    // The members of sets last: this hangs their wires up again.
    (super::readiness::told().touch)(handle);
}

/// The program changed something that wakes whoever sleeps on a kernel socket.
pub fn stir(handle: Handle) {
    if let Some(conn) = Conn::enter(handle) {
        conn.stir();
    }
}

/// The same for what wakes them only while there is room to send (sk_stream_write_space).
pub fn stir_if_writable(handle: Handle) {
    if let Some(conn) = Conn::enter(handle).filter(|conn| conn.revents(POLLOUT) & POLLOUT != 0) {
        conn.stir();
    }
}

impl Conn<'_> {
    /// Waits awake for what the kernel brings.
    fn kernel_has_something(&self, moved: impl Fn() -> bool) -> bool {
        if !self.record.has(flag::AWAKE) {
            return false;
        }
        let events = POLLIN | POLLPRI | POLLRDHUP;
        let kernel = || has_something(self.socket.as_raw_fd(), events);
        let look = || (moved() || kernel()).then_some(());
        matches!(awake::until(self.me, look), Waited::Found(()))
    }

    /// Threads of our own that wait look again, and sets with a member that waits for room; others hear the kernel.
    pub(super) fn stir(&self) {
        self.record.wake_generation.fetch_add(1, Ordering::AcqRel);
        self.link.ring_own(&self.link.tx_shared().room.space);
        waiter::ring_threads(&self.link.rx_shared().wait.data);
    }
}

fn sleep_for_data(
    conn: Conn<'_>,
    wanted: Wanted,
    on_ring: bool,
    deadline: Deadline,
    seen: Seen,
) -> Woken {
    let (me, socket, handle) = (conn.me, conn.socket, conn.handle);
    let waiter = me
        .waiter()
        .filter(|waiter| conn.link.pair.hand_over(waiter));
    let Some(bed) = Sleep::prepare(me, seen) else {
        return Woken::Look(0);
    };
    let nap = ReclaimTimer::on_connection();
    let slot = WireSlot::take(&conn.record.rx.slots);
    let (Some(waiter), Some(slot)) = (waiter, slot) else {
        return sleep_on_kernel(conn, bed, nap, wanted, deadline);
    };
    let slot = slot.keep();
    bed.hold(handle, What::Data(slot as u8));
    chaos::be_late();
    let (events, until) = conn.listen_on_link(listen_to(wanted, nap.limit(deadline)));
    let watched = wanted.urgent && until.is_never() && Watch(waiter).is_worth_while(&conn);
    if watched {
        bed.watch(handle);
    }
    bed.lie_down(waiter);
    let ready = arm_data(&conn, slot, waiter.number, wanted);
    send::serve(&conn);
    // Signals must get through while asleep.
    drop(conn);
    let woken = if ready {
        Woken::Look(0)
    } else if watched && handle.is_open() {
        Watch(waiter).sleep(&bed)
    } else {
        paced(sleep(&bed, Some(waiter), socket, events, until), deadline)
    };
    drop(bed);
    nap.end();
    if on_ring {
        chaos::drag();
    }
    if let (Woken::Look(events), Some(conn)) = (woken, Conn::enter(handle.here())) {
        conn.note_kernel_events(events);
        conn.look_after_link();
        send::serve(&conn);
        if on_ring {
            conn.link.guard.note();
        }
        conn.guard();
    }
    woken
}

impl Conn<'_> {
    /// `[F15]` What is unacknowledged on the link limits the sleep; and an end that the kernel shows only
    /// asks, and would wake for ever.
    fn listen_on_link(&self, (events, until): (c_short, Deadline)) -> (c_short, Deadline) {
        if self.is_only_asked() && self.record.nic.asked.load(Ordering::Relaxed) != 0 {
            return (0, until.min(Deadline::after(PACE)));
        }
        if self.has_unacknowledged() {
            let limit = Duration::from_millis(super::nic::LOOK);
            return (events, until.min(Deadline::after(limit)));
        }
        (events, until)
    }
}

/// The kernel socket's events, and until when.
fn listen_to(wanted: Wanted, deadline: Deadline) -> (c_short, Deadline) {
    match wanted.there {
        0 if wanted.urgent => (POLLIN | POLLPRI | POLLRDHUP, deadline),
        0 => (POLLIN | POLLRDHUP, deadline),
        _ => (POLLRDHUP, deadline.min(Deadline::after(PACE))),
    }
}

/// No bell to be rung with: sleeps on the kernel alone.
fn sleep_on_kernel(
    conn: Conn<'_>,
    bed: Sleep,
    nap: ReclaimTimer,
    wanted: Wanted,
    deadline: Deadline,
) -> Woken {
    let (socket, handle) = (conn.socket, conn.handle);
    let looks = conn.must_look_for_link();
    if !looks {
        conn.ask_for_kernel_to_receive();
    }
    let ready = conn
        .lock_rx()
        .is_none_or(|mut held| is_ready(&conn, held.state(), wanted.there));
    // A peer that has become another program waits for what is in our own ring.
    send::serve(&conn);
    let (events, until) = conn.listen_on_link(listen_to(wanted, nap.limit(deadline)));
    let until = match looks {
        true => until.min(Deadline::after(PACE)),
        false => until,
    };
    drop(conn);
    if ready {
        nap.end();
        return Woken::Look(0);
    }
    let woken = paced(sleep(&bed, None, socket, events, until), deadline);
    drop(bed);
    nap.end();
    if let (Woken::Look(events), Some(conn)) = (woken, Conn::enter(handle.here())) {
        conn.note_kernel_events(events);
        conn.look_after_link();
        send::serve(&conn);
    }
    woken
}

impl Conn<'_> {
    /// If bytes come into the ring at this very moment, the sender sees the wish after publishing them, or we see them
    /// now. An engine heeds no wishes: its rings are left.
    fn ask_for_kernel_to_receive(&self) {
        match self.is_nic() {
            true => send::leave(self),
            false => ask_for_kernel(self),
        }
    }
}

/// `true`: something is there already; do not sleep. Before management begins there is nothing in
/// the ring, but the bell is hung up all the same: another thread may begin while this one sleeps.
fn arm_data(conn: &Conn<'_>, slot: usize, name: u32, wanted: Wanted) -> bool {
    let Some(mut held) = conn.lock_rx() else {
        return true;
    };
    prefer_ring(conn, held.state());
    let rx = conn.receiver(held.state());
    // Never beyond what the ring can hold: the sender would wait for us.
    let least = wanted.least.min(wanted.there + rx.size() / 2).max(1);
    rx.arm_data(slot, name, rx.state.pos + least);
    is_ready(conn, held.state(), wanted.there)
}

/// Is there anything that nothing would wake us for?
fn is_ready(conn: &Conn<'_>, state: &mut RxState, there: u64) -> bool {
    // The kernel's end is level-triggered, the link's is told once.
    conn.is_to_attend()
        || conn.ends_on_link(state)
        || conn.record.rx.gate.is_closed() && something_there(conn, state, there)
}

/// Anything that [`Conn::take`] would find, without taking it: more ring bytes than those that were
/// left `there`, or a mark to pass.
fn something_there(conn: &Conn<'_>, state: &mut RxState, there: u64) -> bool {
    if conn.record.has(flag::BROKEN) {
        return false;
    }
    let before = state.carrier();
    match conn.receiver(state).look() {
        // In a smaller ring it has to be armed for less.
        Ok(Look::Ring(n)) => n > there || state.carrier() != before,
        Err(_) => true,
        Ok(Look::Kernel { .. }) => before.is_ring(),
    }
}
