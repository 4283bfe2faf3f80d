//! A managed connection: sends and receives through its ring pair and its kernel socket.
//!
//! One call puts a [`Conn`] together within a critical section, works under a side lock, and lets
//! go of both before it sleeps. Whatever goes wrong leads back to the kernel socket.

mod begin;
pub mod buffers;
mod capture;
pub mod close;
pub mod detach;
mod fixed;
pub mod flush;
mod glance;
pub mod grow;
pub mod guard;
pub mod handover;
pub mod in_place;
pub mod kept;
mod lock;
pub mod nic;
mod orders;
pub mod pinned_calls;
pub mod quick;
mod ration;
pub mod readiness;
pub mod ready;
pub mod reclaim;
pub mod recv;
pub mod release;
pub mod send;
pub mod shrink;
pub mod socket_options;
mod tail;
#[cfg(test)]
mod tests;
mod unix;
pub mod urgent;
pub mod wait;
mod wait_data;
pub mod wait_space;
pub mod watch;
pub mod zero_len;

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use netstack::ring::tripwire::ALL;
use netstack::ring::{Carrier, Receiver, RxState, Sender, TxState};
use rustix::io::Errno;

pub use crate::runtime::handle::Handle;
use crate::runtime::process;
use crate::runtime::sleep_state::{HeldPlace, What};
use crate::runtime::thread::{Critical, Thread};
use crate::runtime::way::Way;
use crate::state::daemon_client;
use crate::state::journal::{CarrierName, Direction, Happening};
use crate::state::orders::keep_on_kernel;
use crate::state::record::{Record, State, flag};
use crate::state::ring_pair::RingPair;
use rendezvous::reason::Reason;
use rendezvous::rings::Rings;

use lock::SideGuard;
use ready::Armed;
pub use wait_data::{
    is_empty_ring, stir, stir_if_writable, wait_awake, wait_briefly, wake_readers,
};

/// The managed connection behind a number.
pub fn managed(fd: RawFd) -> Option<Handle> {
    let (family, number, record) = crate::state::process_group::record_of(fd)?;
    (record.state() == State::Managed).then(|| Handle::new(family, number, fd))
}

/// What a call needs, valid while the critical section lasts.
pub struct Conn<'a> {
    pub handle: Handle,
    pub record: &'a Record,
    pub link: &'a RingPair,
    pub socket: BorrowedFd<'a>,
    pub me: &'static Thread,
    _critical: Critical,
}

/// Where the sender of what we receive is, and its marks.
#[derive(Clone, Copy, PartialEq)]
pub struct Progress {
    tail: u64,
    epoch: u64,
}

impl<'a> Conn<'a> {
    /// `None` when the record is not managed (any more): then the kernel has it.
    #[inline]
    pub fn enter(handle: Handle) -> Option<Conn<'a>> {
        let critical = Critical::enter()?;
        let family = crate::state::process_group::own()?;
        let record = family.record(handle.number);
        if !handle.is_of(record) || record.state() != State::Managed {
            return None;
        }
        let link = family.link(handle.number)?;
        Some(Conn::put_together(handle, record, link, critical))
    }

    /// For a caller within a critical section, who has found all this there.
    fn of(handle: Handle, record: &'a Record, link: &'a RingPair) -> Option<Conn<'a>> {
        let critical = Critical::enter()?;
        Some(Conn::put_together(handle, record, link, critical))
    }

    #[inline]
    fn put_together(
        handle: Handle,
        record: &'a Record,
        link: &'a RingPair,
        critical: Critical,
    ) -> Conn<'a> {
        // SAFETY: the program is calling with this fd; a concurrent close makes kernel calls fail.
        let socket = unsafe { BorrowedFd::borrow_raw(handle.fd) };
        Conn {
            handle,
            record,
            link,
            socket,
            me: critical.0,
            _critical: critical,
        }
    }

    #[inline]
    pub fn lock_tx(&self) -> Option<SideGuard<'_, TxState>> {
        let (held, dead) = SideGuard::take(&self.record.tx, self.me)?;
        if dead {
            self.after_dead_holder(held)
        } else {
            Some(held)
        }
    }

    /// The last holder of the lock died in the middle of a send: whom it meant to wake is woken, and
    /// if its last step cannot be known the connection ends.
    #[cold]
    fn after_dead_holder<'b>(
        &'b self,
        mut held: SideGuard<'b, TxState>,
    ) -> Option<SideGuard<'b, TxState>> {
        let mut sender = self.sender(held.state());
        let (known, resending) = (sender.recover(), sender.state.must_resend());
        self.record.set(flag::PINNED);
        self.link.ring(&self.link.tx_shared().wait.data, ALL);
        if !known && resending {
            self.broken();
        }
        Some(held)
    }

    #[inline]
    pub fn lock_rx(&self) -> Option<SideGuard<'_, RxState>> {
        let (mut held, dead) = SideGuard::take(&self.record.rx, self.me)?;
        // A holder that died between a kernel receive and its count took bytes with it.
        if dead && !held.state().on_ring() {
            self.broken();
        }
        Some(held)
    }

    #[inline]
    pub fn sender<'b>(&'b self, state: &'b mut TxState) -> Sender<'b, Rings> {
        Sender {
            shared: self.link.tx_shared(),
            memory: &self.link.tx,
            state,
        }
    }

    #[inline]
    pub fn receiver<'b>(&'b self, state: &'b mut RxState) -> Receiver<'b, Rings> {
        Receiver {
            shared: self.link.rx_shared(),
            memory: &self.link.rx,
            state,
            peek: false,
        }
    }

    /// May this connection use rings now? A shared or pinned one, one that is faster on the kernel or ordered there,
    /// or one that belongs to another process's pair, may not.
    pub fn may_use_ring(&self) -> bool {
        const NOT_NOW: u32 = flag::PINNED | flag::PEER_FIN | flag::SHUT | flag::BROKEN | flag::AWAY;
        !self.record.has(NOT_NOW)
            && !self.peer_closed()
            && !process::is_frozen()
            && self.record.procs.load(Ordering::Acquire) == 1
            && self.link.pair.is_mine()
            && !keep_on_kernel(self.record)
    }

    /// The peer wrote what no honest peer writes: this one connection ends.
    #[cold]
    #[track_caller]
    pub fn broken(&self) -> Errno {
        os::log::debug(format_args!(
            "connection {:?} -> {:?}: what the peer wrote makes no sense ({})",
            self.record.local(),
            self.record.peer(),
            std::panic::Location::caller()
        ));
        self.record.set_reason(Reason::Protocol);
        if !self.record.has(flag::BROKEN) {
            self.note_happening(Happening::Reset, 0, Reason::Protocol);
        }
        self.record.set(flag::BROKEN | flag::PINNED);
        self.end_trust();
        self.keep_reset();
        let _ = rustix::net::shutdown(self.socket, rustix::net::Shutdown::Both);
        Errno::CONNRESET
    }

    /// The peer's hint that it has closed; only the kernel socket knows for sure. What we send from
    /// then on goes there too, and draws the reset that the next send must see.
    pub fn peer_closed(&self) -> bool {
        self.link.peer_closed()
    }

    /// Tells the peer where we run.
    pub(super) fn show_cpu(&self) {
        let cpu = &self.link.tx_shared().producer.cpu;
        cpu.store(os::spin::cpu(), Ordering::Relaxed);
    }

    /// Was the peer last seen on this very CPU? Then it cannot run while we spin. Nor can daemons that have no CPU to
    /// themselves.
    pub fn peer_is_near(&self) -> bool {
        if self.is_nic() && !self.link.is_inline() {
            return daemon_client::shares_cpus();
        }
        let cpu = self.link.rx_shared().producer.cpu.load(Ordering::Relaxed);
        cpu == os::spin::cpu()
    }

    /// The sender's tail and marks: they change when there is something to look at.
    pub fn progress(&self) -> Progress {
        let producer = &self.link.rx_shared().producer;
        Progress {
            tail: producer.tail.load(Ordering::Relaxed),
            epoch: producer.epoch.load(Ordering::Relaxed),
        }
    }

    /// The kernel socket has shown something: the next receive looks at it.
    /// After the peer's FIN our own bytes go through the kernel: it may be the peer's death, and
    /// only kernel data draws the reset that tells.
    pub fn note_kernel_events(&self, events: libc::c_short) {
        if events == 0 {
            return;
        }
        self.record.set(flag::LOOK);
        if self.is_only_asked() {
            return;
        }
        if events & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
            && !self.record.has(flag::PEER_FIN)
        {
            if events & libc::POLLHUP != 0 {
                self.note_unread_at_end();
            }
            self.record.set(flag::PEER_FIN);
            send::leave(self);
        }
    }

    pub fn note_carriers(&self, tx: Option<&TxState>, rx: Option<&RxState>) {
        if let Some(tx) = tx {
            let before = self.record.tx.carrier();
            self.record.tx.set_carrier(tx.carrier());
            self.note_move(Direction::Sends, before, tx.carrier(), tx.written);
        }
        if let Some(rx) = rx {
            let before = self.record.rx.carrier();
            if before == Carrier::Kernel && rx.carrier() != Carrier::Kernel {
                self.is_back_on_ring();
            }
            self.record.rx.set_carrier(rx.carrier());
            self.note_move(Direction::Receives, before, rx.carrier(), rx.pos);
        }
    }

    /// For those who look from outside. Another ring of the same pair is no news.
    #[inline]
    fn note_move(&self, direction: Direction, before: Carrier, after: Carrier, offset: u64) {
        if (before == Carrier::Kernel) == (after == Carrier::Kernel) {
            return;
        }
        let name = |carrier| match carrier {
            Carrier::Kernel => CarrierName::Kernel,
            Carrier::Ring(_) if self.is_nic() => CarrierName::Nic,
            Carrier::Ring(_) => CarrierName::Shm,
        };
        let (from, to) = (name(before), name(after));
        let moved = Happening::Moved {
            direction,
            from,
            to,
        };
        let reason = match self.record.reason() {
            Reason::None if after != Carrier::Kernel => Reason::None,
            Reason::None if self.peer_closed() => Reason::PeerGone,
            Reason::None if self.is_ordered_by_peer() => Reason::Ordered,
            Reason::None if self.is_kept_from_ring() => Reason::Trial,
            reason => reason,
        };
        self.note_happening(moved, offset, reason);
    }

    /// For those who look from outside.
    #[cold]
    fn note_happening(&self, happening: Happening, offset: u64, reason: Reason) {
        if let Some(family) = crate::state::process_group::own() {
            family.note(self.handle.number, happening, offset, reason);
        }
    }
}

/// Takes both directions under management without waiting for the next call; `true` when the peer
/// has done the same, and wishes for a ring.
pub fn begin_now(handle: Handle) -> bool {
    let Some(conn) = Conn::enter(handle) else {
        return false;
    };
    begin::begin_tx(&conn);
    conn.link.tx_shared().wait.wish.load(Ordering::Relaxed) != 0
}

/// A sleeper gets up, or has left: what it held on a connection is free for others.
pub fn let_go(place: HeldPlace) {
    if let What::Gate(way) = place.what {
        // Whoever is inside a gate keeps the record from being used again.
        if let Some(family) = crate::state::process_group::own() {
            let record = family.record(place.handle.number);
            match way {
                Way::In => record.rx.gate.leave(),
                Way::Out => record.tx.gate.leave(),
            }
        }
        return;
    }
    let mut armed = Armed::default();
    match place.what {
        What::Data(slot) => armed.data = Some(slot.into()),
        What::Space(slot) => armed.space = Some(slot.into()),
        What::Gate(_) => {}
    }
    match Conn::enter(place.handle) {
        Some(conn) => conn.disarm(armed),
        None => give_back(place.handle, armed),
    }
}

/// The ring pair with the wires has gone: the places on them are still counted.
#[cold]
fn give_back(handle: Handle, armed: Armed) {
    let Some(record) = handle.record_now() else {
        return;
    };
    for (slots, slot) in [
        (&record.rx.slots, armed.data),
        (&record.tx.slots, armed.space),
    ] {
        if let Some(slot) = slot {
            wait::WireSlot::give_back(slots, slot);
        }
    }
}

/// Returns the connection to the kernel in both directions: our own at once, the peer's at its next
/// call. It never waits.
pub fn demote(handle: Handle, reason: Reason) {
    let Some(conn) = Conn::enter(handle) else {
        return;
    };
    conn.record.set(flag::PINNED);
    conn.record.set_reason(reason);
    conn.end_trust();
    if conn.record.rx.gate.is_closed() {
        recv::ask_for_kernel(&conn);
        recv::settle(&conn);
    }
    if conn.record.tx.gate.is_closed() {
        send::leave(&conn);
    }
    rouse_peer(&conn);
}

/// We have asked for the kernel: a peer that sleeps for data is woken too, sees the wish and sends
/// again what we have not read.
fn rouse_peer(conn: &Conn<'_>) {
    let wire = &conn.link.tx_shared().wait.data;
    conn.link.ring(wire, wire.trip_all());
    if conn.link.pair.is_with_itself() {
        serve_own_peer(conn);
    }
}

/// Both ends are in this process: the other one's next call may never come, if it waits for this.
fn serve_own_peer(conn: &Conn<'_>) {
    let Some(family) = crate::state::process_group::own() else {
        return;
    };
    let is_other = |number: &u32| family.record(*number).is_end_of(conn.record);
    let other = family.held().find(is_other);
    let other = other.and_then(|number| {
        let fd = crate::state::process_group::fd_of(number)?;
        Conn::enter(Handle::new(family, number, fd))
    });
    if let Some(other) = other {
        send::serve(&other);
    }
}
