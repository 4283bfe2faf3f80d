//! Readiness of a managed connection, as poll(2) would tell it.
//!
//! On rings this takes no system call. Whatever the kernel socket has to say (the peer's FIN, an
//! error, bytes of a kernel stretch) is asked of it when it has shown an event, or when it is the
//! carrier.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use libc::{
    POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRBAND, POLLWRNORM,
    c_short, pollfd,
};
use netstack::ring::{Carrier, Look, Receiver, RxState, Sender, Tail};

use super::Conn;
use super::lock::SideGuard;
use super::nic::Heard;
use super::wait::WireSlot;
use crate::runtime::chaos;
use crate::state::record::{Role, flag};
use crate::state::ring_pair::RingRest;
use os::poll::poll_now;
use os::tcp;
use rendezvous::reason::Reason;
use rendezvous::rings::Rings;

const IN: c_short = POLLIN | POLLRDNORM;
pub(super) const OUT: c_short = POLLOUT | POLLWRNORM;
const END: c_short = POLLRDHUP | POLLHUP | POLLERR | POLLPRI;

/// What one direction says.
enum DirectionState {
    Yes,
    No,
    AskKernel,
}

impl Conn<'_> {
    /// The events that hold now, among `wanted` and those that are always told.
    pub fn revents(&self, wanted: c_short) -> c_short {
        self.attend();
        let receiving = if wanted & IN != 0 {
            self.readable()
        } else {
            DirectionState::No
        };
        let out = self.out_events();
        let sending = if wanted & out != 0 {
            self.writable()
        } else {
            DirectionState::No
        };
        let mut events = 0;
        if matches!(receiving, DirectionState::Yes) {
            events |= IN;
        }
        if matches!(sending, DirectionState::Yes) {
            events |= out;
        }
        let ask = |answer: &DirectionState| matches!(answer, DirectionState::AskKernel);
        let urgent = wanted & POLLPRI != 0 && self.may_have_urgent();
        if ask(&receiving) || ask(&sending) || urgent || self.kernel_spoke() {
            let kernel = self.events_of_link(self.kernel_events());
            events |= kernel & END;
            if kernel & POLLHUP != 0 && self.hangs_up_in_reset() {
                events |= POLLERR;
            }
            if ask(&receiving) || kernel & (POLLRDHUP | POLLHUP | POLLERR) != 0 {
                events |= kernel & IN;
            }
            if ask(&sending) || kernel & (POLLHUP | POLLERR) != 0 {
                events |= kernel & out;
            }
            if kernel & (IN | END) == 0 {
                self.record.clear(flag::LOOK);
            }
        }
        events & (wanted | POLLHUP | POLLERR)
    }

    /// Bytes are there, and a receive and an answer will follow: the memory of both is asked for.
    pub fn fetch_bytes(&self) {
        let (record, link) = (self.record, self.link);
        if let Carrier::Ring(level) = record.rx.carrier() {
            let head = link.rx_shared().consumer.head.load(Ordering::Relaxed);
            link.rx.fetch_to_read(level, head);
        }
        if let Carrier::Ring(level) = record.tx.carrier() {
            let tail = link.tx_shared().producer.tail.load(Ordering::Relaxed);
            link.tx.fetch_to_write(level, tail);
        }
    }

    fn kernel_spoke(&self) -> bool {
        self.peer_closed()
            || self
                .record
                .has(flag::LOOK | flag::PEER_FIN | flag::SHUT | flag::SHUT_READING | flag::BROKEN)
    }

    pub(super) fn kernel_events(&self) -> c_short {
        let events = IN | OUT | POLLWRBAND | POLLRDHUP | POLLPRI;
        let mut fds = [pollfd {
            fd: self.socket.as_raw_fd(),
            events,
            revents: 0,
        }];
        let _ = poll_now(&mut fds);
        fds[0].revents
    }

    fn readable(&self) -> DirectionState {
        if !self.record.rx.gate.is_closed() || self.record.has(flag::BROKEN) {
            return DirectionState::AskKernel;
        }
        let Some(mut held) = self.lock_rx() else {
            return DirectionState::No;
        };
        let least = self.least_to_tell() as u64;
        let mut rx = self.receiver(held.state());
        if self.read_records(&mut rx).is_err() {
            return DirectionState::Yes;
        }
        // Bytes to be thrown away would make the kernel's poll return at once, for ever.
        if self.settle(&mut rx).is_err() {
            return DirectionState::AskKernel;
        }
        let look = rx.look();
        if self.is_nic() {
            // What the kernel shows counts from here on, if a record has led there.
            self.note_carriers(None, Some(rx.state));
        }
        match look {
            Ok(Look::Ring(n)) if n >= least => DirectionState::Yes,
            // They would make the kernel's poll return at once, for ever.
            Ok(Look::Ring(n))
                if self.record.has(flag::LOOK) && self.has_bytes_past_ring(&mut rx) =>
            {
                if n > 0 {
                    return DirectionState::Yes;
                }
                self.go_on_past_ring();
                DirectionState::AskKernel
            }
            Ok(Look::Ring(0)) => DirectionState::No,
            Ok(Look::Ring(_)) => {
                drop(held);
                yes_if(self.readable_bytes().is_some_and(|n| n >= least))
            }
            // What the kernel queues next has been read from the ring; its arrival is one more event.
            Ok(Look::Kernel { skip: 1.., .. }) => DirectionState::No,
            Ok(Look::Kernel { .. }) => DirectionState::AskKernel,
            // The next call reports the reset.
            Err(_) => DirectionState::Yes,
        }
    }

    fn writable(&self) -> DirectionState {
        if !self.record.tx.gate.is_closed() {
            return DirectionState::AskKernel;
        }
        let Some(mut held) = self.lock_tx() else {
            return DirectionState::No;
        };
        let mut tx = self.sender(held.state());
        let leaving = self.record.has(
            flag::PEER_FIN
                | flag::SHUT
                | flag::PINNED
                | flag::AWAY
                | flag::FAIL_OVER
                | flag::ORDERED,
        );
        if !tx.state.on_ring() || tx.wishes_change() || leaving {
            return DirectionState::AskKernel;
        }
        let room = has_room(&mut tx);
        if self.is_nic() {
            return yes_if(room || self.is_stalled());
        }
        // A send that finds it full grows the ring, or spills.
        let more = tx.level() < super::grow::BUSY_LEVEL
            && (tx.level() < self.largest() || self.spills_at_once());
        if room || more {
            return DirectionState::Yes;
        }
        // Whoever is about to sleep has asked twice: if nobody has read in between, nobody may be
        // reading, and the kernel would take more.
        yes_if(self.may_grow_or_spill(&tx) && !tx.consumer_moved().unwrap_or(false))
    }

    /// Bytes that a receive would find: the FIONREAD of all carriers together.
    pub fn readable_bytes(&self) -> Option<u64> {
        if !self.record.rx.gate.is_closed() {
            return None;
        }
        self.bytes_there(&mut self.lock_rx()?)
    }

    /// The same for who asks for nothing else: also those are told that no mark has announced.
    pub fn unread_bytes(&self) -> Option<u64> {
        let there = self.readable_bytes()?;
        if there > 0 {
            return Some(there);
        }
        let mut held = self.lock_rx()?;
        let mut rx = self.receiver(held.state());
        if self.has_bytes_past_ring(&mut rx) {
            self.record.set(flag::LOOK);
            return tcp::inq(self.socket).ok().map(u64::from);
        }
        Some(0)
    }

    /// Where the stream ends that has arrived so far: it moves on with every byte, on any carrier.
    pub fn stream_end(&self) -> Option<u64> {
        // With a link that has just opened its ring counts.
        self.attend();
        let mut held = self.lock_rx()?;
        if !self.record.rx.gate.is_closed() {
            let beyond = self.record.nic.read_beyond.load(Ordering::Relaxed);
            return Some(self.received_by_kernel().wrapping_add(beyond));
        }
        let pos = held.state().pos;
        // What comes past the ring moves nothing but the kernel's count.
        Some(match self.record.has(flag::BROKEN) {
            true => pos + self.received_by_kernel(),
            false => pos + self.bytes_there(&mut held)?,
        })
    }

    fn bytes_there(&self, held: &mut SideGuard<'_, RxState>) -> Option<u64> {
        if self.record.has(flag::BROKEN) {
            return tcp::inq(self.socket).ok().map(u64::from);
        }
        // A record, or the beginning of one, is no byte of the program's.
        let heard = self.read_records(&mut self.receiver(held.state())).ok()?;
        let may_be_record = heard == Heard::Nothing && self.record.has(flag::RECORD_MAY_COME);
        if may_be_record && !held.state().on_ring() {
            return Some(0);
        }
        let mut ahead = held.state().clone();
        let mut rx = Receiver {
            peek: true,
            ..self.receiver(&mut ahead)
        };
        let mut total = 0;
        let mut kernel = None;
        loop {
            match rx.look().ok()? {
                Look::Ring(0) => return Some(total),
                Look::Ring(n) => {
                    total += n;
                    rx.consumed(n);
                }
                Look::Kernel { skip, limit } => {
                    let queued = match kernel {
                        Some(left) => left,
                        None => u64::from(tcp::inq(self.socket).ok()?),
                    };
                    let n = queued.saturating_sub(skip).min(limit);
                    total += n;
                    if n < limit || queued < skip + n {
                        return Some(total);
                    }
                    kernel = Some(queued - (skip + n));
                    rx.skipped(skip);
                    rx.consumed(n);
                }
            }
        }
    }

    /// On the kernel for good, and nothing of it is left in a ring: what the kernel's own poll says is
    /// all there is to say.
    pub fn is_settled_on_kernel(&self) -> bool {
        self.record.has(flag::PINNED) && self.tx_settled() && self.rx_settled()
    }

    /// What is left in the ring, for who closes his last number of a connection that others hold.
    pub fn rest_in_ring(&self) -> Option<RingRest> {
        let read = self.lock_rx()?.state().pos;
        Some(self.link.rest(read))
    }

    /// Would a receive find bytes in the ring?
    pub fn has_ring_bytes(&self) -> bool {
        self.record.rx.gate.is_closed()
            && !self.record.has(flag::BROKEN)
            && self.lock_rx().is_some_and(|mut held| {
                matches!(self.receiver(held.state()).look(), Ok(Look::Ring(1..)))
            })
    }

    fn tx_settled(&self) -> bool {
        !self.record.tx.gate.is_closed()
            || self
                .lock_tx()
                .is_some_and(|mut held| !held.state().on_ring())
    }

    pub fn rx_settled(&self) -> bool {
        const ALL_KERNEL: Look = Look::Kernel {
            skip: 0,
            limit: u64::MAX,
        };
        if !self.record.rx.gate.is_closed() || self.record.has(flag::BROKEN) {
            return true;
        }
        self.lock_rx().is_some_and(|mut held| {
            !held.state().wants_ring() && self.receiver(held.state()).look() == Ok(ALL_KERNEL)
        })
    }

    /// Bytes on their way: the SIOCOUTQ of the carrier in use.
    pub fn unsent_bytes(&self) -> Option<u64> {
        if !self.record.tx.gate.is_closed() {
            return None;
        }
        let mut held = self.lock_tx()?;
        let state = held.state();
        if state.on_ring() {
            // Between two processes the ring is the peer's memory: what is in it has arrived, as in the
            // kernel what lies in the other end's queue. On the link the engine says what has.
            let head = self.link.tx_shared().consumer.head.load(Ordering::Acquire);
            return Some(match self.is_nic() || self.record.is_unix() {
                // What the peer left unread has gone with its socket.
                true if self.record.is_unix() && self.link.peer_has_reset() => 0,
                true => state.written.saturating_sub(head),
                false => 0,
            });
        }
        let queued = tcp::outq(self.socket).ok().map(u64::from)?;
        Some(queued + state.left_to_resend())
    }

    /// What TCP_INFO counts. `None` while the kernel's own counts are true.
    pub fn totals(&self) -> Option<tcp::Totals> {
        let syn = u64::from(self.record.role() == Role::Connected);
        let (pending, unread) = (self.unsent_bytes()?, self.readable_bytes()?);
        let sent = self.lock_tx()?.state().written;
        let received = self.lock_rx()?.state().pos + unread;
        Some(tcp::Totals {
            acked: (sent + syn).saturating_sub(pending),
            sent,
            received,
        })
    }

    /// Asks to be rung at `name` for what `wanted` waits for; `None` when that is impossible, and
    /// then the kernel has been asked for. The caller looks again before it sleeps.
    pub fn arm(&self, wanted: c_short, name: u32) -> Option<Armed> {
        let mut armed = Armed::default();
        if wanted & (IN | POLLRDHUP) != 0 {
            armed.data = match self.record.rx.gate.is_closed() {
                true => Some(self.arm_data(name)?),
                // Nothing comes by the ring yet, but a daemon may ask whether it shall.
                false if self.is_nic() => Some(self.arm_data(name)?),
                false => None,
            };
        }
        if wanted & self.out_events() != 0 && self.record.tx.gate.is_closed() {
            (armed.space, armed.capped) = self.arm_space(name, armed)?;
        }
        Some(armed)
    }

    fn arm_data(&self, name: u32) -> Option<usize> {
        let slot = WireSlot::take(&self.record.rx.slots)?;
        self.arm_data_at(slot.number, name, 0);
        Some(slot.keep())
    }

    /// (Re-)arms a data slot behind what has been seen: the next byte after `seen` rings.
    pub fn arm_data_at(&self, slot: usize, name: u32, seen: u64) {
        chaos::be_late();
        if let Some(mut held) = self.lock_rx() {
            super::recv::prefer_ring(self, held.state());
            let rx = self.receiver(held.state());
            let at = rx.state.pos.max(seen) + 1;
            rx.arm_data(slot, name, at);
        }
    }

    /// The slot, if there is something to wait for; and whether time can bring it, too.
    fn arm_space(&self, name: u32, armed: Armed) -> Option<(Option<usize>, bool)> {
        chaos::be_late();
        let mut held = self.lock_tx()?;
        let mut tx = self.sender(held.state());
        if !tx.state.on_ring() || has_room(&mut tx) {
            return Some((None, false));
        }
        let shared = self.link.theirs().shared.load(Ordering::Acquire) != 0;
        match WireSlot::take(&self.record.tx.slots).filter(|_| !shared) {
            Some(slot) => {
                let want = enough(&tx);
                tx.arm_space(slot.number, name, want);
                Some((Some(slot.keep()), self.may_grow_or_spill(&tx)))
            }
            None => {
                drop(held);
                self.disarm(armed);
                None
            }
        }
    }

    pub fn disarm(&self, armed: Armed) {
        if let Some(slot) = armed.data {
            self.link.rx_shared().wait.data.disarm(slot);
            WireSlot::give_back(&self.record.rx.slots, slot);
        }
        if let Some(slot) = armed.space {
            self.link.tx_shared().room.space.disarm(slot);
            WireSlot::give_back(&self.record.tx.slots, slot);
        }
    }

    /// Where the sender's tail stands: an edge-triggered event is due when it moves on.
    pub fn tail(&self) -> u64 {
        Tail::read(&self.link.rx_shared().producer.tail).offset()
    }

    /// Readiness cannot be waited for on rings (too many waiters, no bell): both directions go back
    /// to the kernel, where the kernel's own poll sees everything.
    pub fn wait_by_kernel(&self) {
        if self.record.rx.gate.is_closed() {
            super::recv::ask_for_kernel(self);
        }
        if self.record.tx.gate.is_closed() {
            super::send::leave(self);
        }
        super::rouse_peer(self);
    }

    pub fn wait_by_kernel_for_good(&self) {
        self.wait_by_kernel();
        self.record.set_reason(Reason::Waiters);
        self.record.set(flag::PINNED);
    }

    pub fn receives_by_ring(&self) -> bool {
        self.record.rx.is_on_ring()
    }

    pub fn sends_by_kernel(&self) -> bool {
        !self.record.tx.gate.is_closed() || !self.record.tx.is_on_ring()
    }

    /// What to ask the kernel's poll for while asleep. A FIN that is known already would wake at
    /// once and for ever.
    pub fn kernel_interest(&self, wanted: c_short) -> c_short {
        let mut events = wanted & (POLLPRI | POLLRDHUP);
        if wanted & IN != 0 {
            events |= POLLIN;
        }
        if !self.record.has(flag::PEER_FIN) {
            events |= POLLRDHUP;
        }
        if wanted & self.out_events() != 0 && self.sends_by_kernel() {
            events |= POLLOUT;
        }
        events
    }
}

/// So much must be free before a ring counts as writable: a program that then sends a little on a
/// blocking socket must not block, and a wake-up must be worth its cost. The kernel wants a third.
fn enough(tx: &Sender<'_, Rings>) -> u64 {
    tx.size() / 4
}

fn has_room(tx: &mut Sender<'_, Rings>) -> bool {
    let enough = enough(tx);
    tx.free(enough).map_or(true, |free| free >= enough)
}

/// Slots that a waiter holds on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Armed {
    pub data: Option<usize>,
    pub space: Option<usize>,
    /// The ring could still grow: if its consumer stalls, there will be space in a larger one.
    pub capped: bool,
}

fn yes_if(yes: bool) -> DirectionState {
    if yes {
        DirectionState::Yes
    } else {
        DirectionState::No
    }
}
