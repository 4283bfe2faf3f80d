//! The guard of one connection: counts what its rings cost, and moves it to the kernel and back as
//! [`crate::state::guard_policy`] decides.
//!
//! Called where a call has slept, has woken the peer, or was the kernel's: never where a ring was ready.
//! There is no timer; what is due happens at the next such call. Only the connecting end decides, for
//! both directions: it leaves its ring, and wishes the peer to leave the other.

use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};

use super::{Conn, recv, send};
use crate::runtime::process;
use crate::state::guard_policy::{GuardVerdict, Sight, Station};
use crate::state::orders;
use crate::state::record::{Role, flag};
use os::log;
use rendezvous::config::{Guarding, Spin};
use rendezvous::reason::Reason;
use shm::layout::SideLine;

/// Outside of trials the clock is looked at once in so many events.
const SELDOM: u32 = 16;
/// Who has one of these is on the kernel for good.
pub(super) const FOR_GOOD: u32 = flag::PINNED | flag::PEER_FIN | flag::SHUT | flag::BROKEN;
/// What the deciding end says in its line of the block: the kernel is tried, or faster.
const TRIED: u32 = 1;
const SLOWER: u32 = 2;
/// It has been ordered there, which either end may say.
pub(super) const ORDERED: u32 = 3;

/// Who spins for ever never sleeps. It turns every 200 us to look at the kernel, and those turns would
/// count as sleeps: a send that waits in a full ring would soon try the kernel, whose own buffers are
/// empty, and go through with 64 KiB more than the program had room for. No byte is lost by that, but
/// nothing is gained either, and a program that waits to be interrupted there is not.
fn is_on() -> bool {
    let config = process::config();
    config.guard != Guarding::Off && config.spin != Spin::Forever
}

impl Conn<'_> {
    /// After a call, without side locks: changes carriers, if it is time.
    #[inline]
    pub(super) fn guard(&self) {
        if self.link.guard.is_due() {
            self.think();
        }
    }

    /// A direction's call was the kernel's. The end that does not decide has its reason from the other.
    pub(super) fn note_kernel_call(&self) {
        self.link.guard.note();
        self.note_order_of_peer();
        if self.record.role() == Role::Accepted && !self.is_nic() {
            let away = self.link.theirs().away.load(Ordering::Relaxed);
            match (away, self.record.reason()) {
                (SLOWER, Reason::None) => self.record.set_reason(Reason::Slower),
                (_, Reason::Slower) if away != SLOWER => self.record.set_reason(Reason::None),
                _ => {}
            }
        }
    }

    /// A guard or an order, ours or the peer's, has it on the kernel.
    pub(super) fn is_kept_from_ring(&self) -> bool {
        let away = |line: &SideLine| line.away.load(Ordering::Relaxed) != 0;
        self.record.has(flag::AWAY)
            || !self.is_nic() && (away(self.link.theirs()) || away(self.link.mine()))
    }

    /// A direction is on a ring again.
    pub(super) fn is_back_on_ring(&self) {
        if self.record.reason() == Reason::Slower && !self.record.has(flag::AWAY) {
            self.record.set_reason(Reason::None);
        }
        self.note_order_of_peer();
    }

    #[cold]
    fn think(&self) {
        let guard = &self.link.guard;
        if !is_on() || self.record.role() == Role::Accepted || self.is_nic() {
            return guard.think_after(1 << 30);
        }
        guard.think_after(SELDOM);
        // What is measured then is the kernel, whatever it is taken for.
        if self.is_ordered_by_peer() || orders::keep_on_kernel(self.record) {
            return;
        }
        let Ok(mut mind) = guard.mind.try_lock() else {
            return;
        };
        if self.record.has(FOR_GOOD) {
            return self.lose_interest();
        }
        // Another process that holds the socket knows nothing of what this one has measured.
        if self.record.procs.load(Ordering::Acquire) != 1 || !self.link.pair.is_mine() {
            return;
        }
        let station = mind.decide(self.sight());
        if mind.is_watching_closely() {
            guard.think_after(1);
        }
        self.move_to(station);
        if let Some(verdict) = mind.verdict.take() {
            self.tell(station, verdict);
        }
    }

    /// On the kernel it is whatever we think, and then as the kernel does it.
    fn lose_interest(&self) {
        if self.record.has(flag::AWAY) {
            self.record.clear(flag::AWAY);
            self.link.mine().away.store(0, Ordering::Relaxed);
        }
    }

    fn sight(&self) -> Sight {
        let now = clock_gettime(ClockId::Monotonic);
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (tx, rx) = (&self.record.tx.counts, &self.record.rx.counts);
        Sight {
            now: now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000,
            events: self.link.guard.events.load(Ordering::Relaxed),
            messages: load(&tx.messages) + load(&rx.messages),
            bytes: self.record.carried().into_iter().map(load).sum(),
        }
    }

    fn move_to(&self, station: Station) {
        let (away, slower) = (
            self.record.has(flag::AWAY),
            self.record.reason() == Reason::Slower,
        );
        match station {
            Station::Ring if away => self.come_back(),
            Station::Trial if !away => self.go_away(),
            Station::Kernel if !slower => self.stay_away(),
            _ => {}
        }
    }

    /// Both directions to the kernel: ours from the next byte on, the peer's at its next call.
    fn go_away(&self) {
        if !self.may_use_ring() {
            return;
        }
        self.record.set(flag::AWAY);
        // Before the wish: a peer that follows it knows why.
        self.link.mine().away.store(TRIED, Ordering::Relaxed);
        if self.record.rx.gate.is_closed() {
            recv::ask_for_kernel(self);
        }
        if self.record.tx.gate.is_closed() {
            send::leave(self);
        }
    }

    fn stay_away(&self) {
        if !self.record.has(flag::AWAY) {
            return;
        }
        self.record.set_reason(Reason::Slower);
        self.link.mine().away.store(SLOWER, Ordering::Relaxed);
    }

    /// Rings are welcome again, in both directions.
    fn come_back(&self) {
        self.record.clear(flag::AWAY);
        if self.record.reason() == Reason::Slower {
            self.record.set_reason(Reason::None);
        }
        // Sleepers in epoll sets get their wires before the first ring byte can come.
        (super::readiness::told().touch)(self.handle);
        if let Some(mut held) = self.lock_rx() {
            recv::prefer_ring(self, held.state());
        }
        self.link.mine().away.store(0, Ordering::Relaxed);
    }

    fn tell(&self, station: Station, verdict: GuardVerdict) {
        let GuardVerdict { ring, kernel } = verdict;
        let better = match station {
            Station::Kernel => "slower than kernel TCP",
            Station::Ring | Station::Trial => "not slower than kernel TCP",
        };
        log::debug(format_args!(
            "connection {:?} -> {:?} is {better} on its rings: {ring} B/s there, {kernel} B/s by the kernel",
            self.record.local(),
            self.record.peer()
        ));
    }
}
