//! Onto the link: both directions at once, at a byte that both ends know (`[F1]` to `[F10]`).
//!
//! The end that connected proposes in a send, and lets that wait a moment; the end that accepted agrees
//! in any of its calls, or when it is rung for.

use std::sync::atomic::Ordering;

use netstack::failover::{Prepare, Segment as _, Stage};
use netstack::ring::{RxState, TxState, tail};
use rustix::net::sockopt;

use super::super::Conn;
use super::super::begin::begin_tx;
use super::patience::{LinkWait, allows_long_waits};
use crate::state::engine;
use crate::state::orders;
use crate::state::record::{Role, flag};
use os::backoff::Backoff;
use os::random;
use os::tcp;
use rendezvous::reason::Reason;
use shm::layout::{CONFIRMED, NIC_LEVEL};

/// Milliseconds until the next proposal, after one that has failed; doubled each time, up to the longest.
const FIRST_PAUSE: u64 = 10;
const LONGEST_PAUSE: u64 = 10_000;
/// A stream with fewer answers than one to so many packets is one-way.
const ONE_WAY: u32 = 8;
/// A larger send is bulk, which the kernel carries as well.
const SMALL: usize = 16 << 10;
/// Who has one of these stays where it is.
const NOT_NOW: u32 = flag::PINNED
    | flag::PEER_FIN
    | flag::SHUT
    | flag::SHUT_READING
    | flag::BROKEN
    | flag::AWAY
    | flag::HELD_BACK;

impl Conn<'_> {
    /// Before a send of `len` bytes, with no lock held.
    pub(in crate::conn) fn join_before_send(&self, len: usize) {
        self.attend();
        self.hear_before_send();
        if self.is_joining() || self.may_propose(len) && self.propose() {
            self.wait_for_open();
        }
    }

    /// Looks whether something has happened to a promotion. With no lock held.
    #[inline]
    pub fn attend(&self) {
        if !self.is_nic() {
            return;
        }
        if self.record.tx.is_on_ring() {
            self.judge_link();
            return self.follow_frozen_word();
        }
        let asked = self.link.theirs().promotion.epoch.load(Ordering::Acquire);
        if self.is_joining() || asked != self.record.nic.seen.load(Ordering::Relaxed) {
            self.attend_now(asked);
        }
    }

    /// After arming: has something happened to a promotion that nobody has attended to?
    pub(in crate::conn) fn is_to_attend(&self) -> bool {
        if !self.is_nic() || self.record.tx.is_on_ring() {
            return false;
        }
        let asked = self.link.theirs().promotion.epoch.load(Ordering::Acquire);
        let open = self.is_joining() && self.segment().tail().is_open();
        open || asked != self.record.nic.tried.load(Ordering::Relaxed)
    }

    #[cold]
    fn attend_now(&self, asked: u64) {
        if self.record.role() == Role::Accepted
            && !self.is_begun()
            && (crate::conn::readiness::told().put_off)(self.handle)
        {
            return;
        }
        self.record.nic.tried.store(asked, Ordering::Relaxed);
        if self.is_joining() {
            return self.enter_if_open();
        }
        let refused = &self.link.theirs().promotion.refused;
        let is_over = refused.load(Ordering::Acquire) == asked;
        if is_over || self.record.role() == Role::Connected || self.agree() {
            self.record.nic.seen.store(asked, Ordering::Relaxed);
        }
    }

    /// Taken under management: before, to agree touches all sets.
    fn is_begun(&self) -> bool {
        self.record.tx.gate.is_closed() && self.record.rx.gate.is_closed()
    }

    /// `[F4]` This promotion is over, or will never be; the next one needs a block of its own.
    pub(in crate::conn) fn needs_another_block(&self) -> bool {
        let frozen = self.is_nic() && self.segment().tail().is_frozen();
        frozen && !self.record.has(flag::RECORD_MAY_COME | flag::JOINING)
    }

    fn may_propose(&self, len: usize) -> bool {
        self.record.role() == Role::Connected
            && self.is_small(len)
            && self.link.theirs().stage.load(Ordering::Relaxed) == CONFIRMED
            && self.link.mine().promotion.epoch.load(Ordering::Relaxed) == 0
            && !self.record.has(NOT_NOW | flag::RECORD_MAY_COME)
            && !self.record.tx.is_on_ring()
            && os::clock::coarse_ms() >= self.record.nic.next.load(Ordering::Relaxed)
            && self.may_use_ring()
            && self.may_wait()
    }

    fn is_small(&self, len: usize) -> bool {
        let on_kernel = || !self.record.tx.is_on_ring();
        if len > SMALL && self.record.reason() == Reason::None && on_kernel() {
            self.record.set_reason(Reason::Bulk);
        }
        len <= SMALL
    }

    /// A wait that is too short would be in vain, and the next try all the later.
    fn may_wait(&self) -> bool {
        allows_long_waits() || !self.record.nic.was_put_off() && !self.has_one_try()
    }

    /// `[F18]` Next to nothing is answered: a proposal in vain would be the last for long.
    fn has_one_try(&self) -> bool {
        let packets = tcp::data_packets(self.socket);
        let answers = packets.is_ok_and(|(come, gone)| come >= gone / ONE_WAY);
        self.record.role() == Role::Connected && !answers
    }

    /// `[F2]`
    #[cold]
    fn propose(&self) -> bool {
        let Ok(key) = random() else { return false };
        begin_tx(self);
        self.at_a_quiet_moment(|conn, tx, rx| {
            let prepare = conn.failover(tx, |side| {
                side.can_join(None, rx.pos)
                    .then(|| side.propose(key, tx.written, rx.pos))
            });
            if let Some(prepare) = prepare {
                conn.say(&prepare);
            }
            prepare.is_some()
        })
    }

    /// `[F3]` Whether the proposal is dealt with; if not, it may be possible later.
    #[cold]
    fn agree(&self) -> bool {
        if self.record.has(NOT_NOW) || !self.may_use_ring() {
            return false;
        }
        let Some(prepare) = self.link.theirs().promotion.proposal() else {
            return false;
        };
        // A program that only reads has never sent anything.
        begin_tx(self);
        self.at_a_quiet_moment(|conn, tx, rx| {
            let agrees = conn.failover(tx, |side| {
                side.can_join(None, rx.pos) && side.agree(&prepare, tx.written, rx.pos)
            });
            if agrees {
                conn.say(&Prepare {
                    sent: tx.written,
                    received: rx.pos,
                    ..prepare
                });
            }
            // Streams do not go back: what is beyond the place that was proposed never stands there.
            agrees || tx.written > prepare.received || rx.pos > prepare.sent
        })
    }

    /// Under both locks, if the kernel carries both directions and has nothing that we have not read.
    fn at_a_quiet_moment(&self, act: impl FnOnce(&Conn<'_>, &TxState, &RxState) -> bool) -> bool {
        if !self.is_begun() {
            return false;
        }
        let (Some(mut rx), Some(mut tx)) = (self.lock_rx(), self.lock_tx()) else {
            return false;
        };
        let (rx, tx) = (rx.state(), tx.state());
        // [F4] Each promotion has a block of its own.
        let used = self.link.mine().promotion.epoch.load(Ordering::Relaxed) != 0;
        let quiet = !used
            && !self.segment().tail().is_frozen()
            && !rx.on_ring()
            && !tx.on_ring()
            && !tx.must_resend()
            && rx.taken_from_kernel() == rx.pos
            && !self.owes_record(tx)
            && tcp::inq(self.socket) == Ok(0);
        if !quiet {
            return false;
        }
        self.failover(tx, |side| side.took_up_to(rx.pos));
        act(self, tx, rx)
    }

    /// Makes the rings ready and tells the daemon where we stand.
    fn say(&self, prepare: &Prepare) {
        let (sending, receiving) = (self.link.tx_shared(), self.link.rx_shared());
        let (sent, received) = (prepare.sent, prepare.received);
        sending.producer.tail.store(sent, Ordering::Relaxed);
        sending.consumer.head.store(sent, Ordering::Relaxed);
        receiving.consumer.head.store(received, Ordering::Relaxed);
        tail::begin(&receiving.producer.tail, received);
        self.record.set(flag::JOINING);
        if self.record.role() == Role::Accepted {
            self.expect_inline();
        }
        self.link.mine().promotion.put(prepare);
        self.link.ring_daemon();
    }

    /// Lets the call wait until the link is open; if it does not open, goes back to the kernel.
    #[cold]
    fn wait_for_open(&self) {
        let wait = LinkWait::begin(self.has_one_try());
        let mut backoff = Backoff::default();
        while !self.segment().tail().is_open() && self.may_open() && !wait.is_over() {
            engine::poll();
            backoff.pause();
        }
        if self.segment().tail().is_open() {
            wait.has_come();
        }
        self.enter_if_open();
        if self.is_joining() {
            self.give_up();
        }
    }

    /// Is there any sense in waiting? If the other end has agreed, and the engines are in the programs, it opens here.
    fn may_open(&self) -> bool {
        let promotion = &self.link.theirs().promotion;
        let epoch = self.link.mine().promotion.epoch.load(Ordering::Relaxed);
        if promotion.refused.load(Ordering::Acquire) == epoch || self.is_contradicted() {
            return false;
        }
        promotion.agreed.load(Ordering::Acquire) != epoch || self.open_inline()
    }

    /// The kernel brings something. To the end that has proposed, that is what the other has sent before it heard of
    /// it: it does not stand there any more. To the one that has agreed: the other has given up, and is followed.
    fn is_contradicted(&self) -> bool {
        if tcp::inq(self.socket) == Ok(0) {
            return false;
        }
        if self.record.role() == Role::Accepted
            && let Some(mut rx) = self.lock_rx()
        {
            let _ = self.read_records(&mut self.receiver(rx.state()));
        }
        true
    }

    /// The route to the peer's engine and the name there, if both ends have an engine of their own.
    fn place_inline(&self) -> Option<(u32, u64)> {
        let promotion = &self.link.theirs().promotion;
        let route = promotion.route.load(Ordering::Relaxed).checked_sub(1)?;
        let name = promotion.name.load(Ordering::Relaxed);
        Some((u32::try_from(route).ok()?, name))
    }

    /// Before we say that we agree: our own engine, if it shall, is ready for what the peer's will send.
    fn expect_inline(&self) {
        let Some((route, name)) = self.place_inline() else {
            return;
        };
        self.link.set_inline();
        if !engine::expect(self.link, route, name) {
            // [F9] We agree to what will not be, and go back by a record.
            tail::freeze(&self.link.rx_shared().producer.tail);
        }
    }

    /// The peer has agreed, and its engine is ready.
    fn open_inline(&self) -> bool {
        let Some((route, name)) = self.place_inline().filter(|_| !self.link.is_inline()) else {
            return self.link.is_inline();
        };
        self.link.set_inline();
        engine::open(self.link, route, name)
    }

    fn enter_if_open(&self) {
        if let (Some(mut rx), Some(mut tx)) = (self.lock_rx(), self.lock_tx()) {
            self.enter_link(tx.state(), rx.state());
        }
    }

    /// `[F7]` If the word says OPEN, both directions are on their rings from here on. Under both locks.
    pub(super) fn enter_link(&self, tx: &mut TxState, rx: &mut RxState) {
        if !self.is_joining() {
            return;
        }
        let tail = self.segment().tail();
        let linked = self.failover(tx, |side| {
            side.see(tail);
            side.stage() == Stage::Linked
        });
        if !linked {
            return;
        }
        let (sent, received) = (tx.written, rx.pos);
        os::log::debug(format_args!(
            "connection {:?} -> {:?} is on the link, {sent} bytes after its beginning, and {received}",
            self.record.local(),
            self.record.peer()
        ));
        *tx = TxState::begin_on_ring(sent, NIC_LEVEL);
        *rx = RxState::begin_on_ring(received, NIC_LEVEL);
        self.note_carriers(Some(tx), Some(rx));
        self.record.set(flag::UPGRADED);
        self.record.nic.note_use();
        self.record.clear(flag::JOINING);
        self.record.set_reason(Reason::None);
        if orders::keep_on_kernel(self.record) {
            // It came while the link was made: the next call looks.
            self.record.set(flag::ORDERED);
        }
        self.record.nic.begin();
        // The way back must not rot.
        let _ = sockopt::set_socket_keepalive(self.socket, true);
        super::watch::linked(self.handle.number);
        self.entrust();
    }

    /// `[F8]` `[F9]` The link does not open.
    #[cold]
    fn give_up(&self) {
        let Some(mut tx) = self.lock_tx() else { return };
        if !self.is_joining() {
            return;
        }
        let tail = tail::freeze(&self.link.rx_shared().producer.tail);
        self.record.clear(flag::JOINING);
        self.record
            .nic
            .put_off(os::clock::coarse_ms(), FIRST_PAUSE, LONGEST_PAUSE);
        self.record.set_reason(Reason::NoAgreement);
        let promotion = &self.link.theirs().promotion;
        let epoch = self.link.mine().promotion.epoch.load(Ordering::Relaxed);
        os::log::debug(format_args!(
            "connection {:?} -> {:?} does not get to the link (try {epoch}): {}",
            self.record.local(),
            self.record.peer(),
            match promotion.refused.load(Ordering::Acquire) == epoch {
                true => "refused",
                false if tcp::inq(self.socket) != Ok(0) => "the kernel has brought something",
                false => "no agreement in time",
            }
        ));
        if !self.failover(tx.state(), |side| side.give_up(tail)) {
            self.failover(tx.state(), |side| side.freeze());
            self.resume(&mut self.sender(tx.state()), tail);
        }
    }
}
