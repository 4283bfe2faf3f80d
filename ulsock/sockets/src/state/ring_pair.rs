//! A connection's ring pair as one side sees it: which segment, which block, which way round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use netstack::ring::{Shared, Slots, Tail, Tripwire};

use crate::runtime::process;
use crate::runtime::waits::{self, Wait};
use crate::state::engine;
use crate::state::guard_state::Guard;
use rendezvous::pair::{DAEMON, Heard, Other, Pair, PairSegment};
use rendezvous::rings::Rings;
use shm::layout::{Block, CONFIRMED, RELEASED, SideLine, SideNumber};
use shm::waiter;

/// What a receive needs is in the first cache line, what a send needs in the second one too.
#[repr(C, align(64))]
pub struct RingPair {
    /// The block's two directions, as seen from this side.
    tx_shared: *const Shared,
    rx_shared: *const Shared,
    pub rx: Rings,
    block: *const Block,
    pub tx: Rings,
    pub pair: Arc<Pair>,
    pub segment: Arc<PairSegment>,
    pub conn: u32,
    pub side: SideNumber,
    /// The daemon empties its rings, for another host.
    pub is_nic: bool,
    /// Our own engine does so instead.
    inline: AtomicBool,
    /// Of the sending direction.
    pub usage: Usage,
    pub guard: Guard,
    /// The largest ring level that the configuration allows.
    pub largest: u8,
    /// Another process goes on using the block.
    kept: AtomicBool,
}

// SAFETY: the pointers lead into the segment, which the Arc keeps mapped; the protocol's own rules
// govern who touches what.
unsafe impl Send for RingPair {}
// SAFETY: the pointers lead to atomics in the segment, which the Arc keeps mapped; the protocol's rules say who touches what.
unsafe impl Sync for RingPair {}

impl RingPair {
    pub fn new(
        pair: Arc<Pair>,
        segment: Arc<PairSegment>,
        conn: u32,
        side: SideNumber,
    ) -> RingPair {
        let rings = |direction| Rings::of(&segment, conn, direction);
        let (tx, rx, block) = (rings(side), rings(1 - side), segment.block(conn));
        // SAFETY: checked against the layout by `block`, and mapped as long as the segment lives.
        let shared = |direction: SideNumber| unsafe { &raw const (*block).directions[direction] };
        RingPair {
            is_nic: pair.other() == Other::Daemon,
            inline: AtomicBool::new(false),
            pair,
            segment,
            conn,
            side,
            tx,
            rx,
            usage: Usage::default(),
            guard: Guard::new(),
            largest: process::config().largest,
            block,
            tx_shared: shared(side),
            rx_shared: shared(1 - side),
            kept: AtomicBool::new(false),
        }
    }

    /// Says, before it is retired, whether anybody else still uses the block; then it is not given
    /// out again.
    pub fn block_is_free(&self, free: bool) {
        self.kept.store(!free, Ordering::Relaxed);
    }

    /// One of its rings is larger than those that every connection has.
    pub fn has_grown(&self) -> bool {
        let sides = [self.mine(), self.theirs()];
        sides
            .iter()
            .any(|side| side.grown.load(Ordering::Relaxed) > 0)
    }

    /// The peer has never heard of this block: it is free at once.
    pub fn was_not_claimed(self) {
        self.theirs().stage.store(RELEASED, Ordering::Release);
    }

    /// Under the sending lock: our rings have memory up to this level.
    pub fn note_growth(&self, level: u8) {
        let grown = &self.mine().grown;
        grown.fetch_max(level.into(), Ordering::Relaxed);
    }

    /// The same for none but the smallest.
    pub fn give_back_mine(&self) {
        self.give_back(self.side);
        self.mine().grown.store(0, Ordering::Relaxed);
    }

    /// The larger rings of a direction go; nobody must have anything left to read there, and the
    /// smallest is not touched.
    fn give_back(&self, sender: SideNumber) {
        let grown = &self.block().sides[sender].grown;
        let level = grown.load(Ordering::Relaxed);
        if level > 0 {
            self.segment.give_back(self.conn, sender, level);
        }
    }

    #[inline]
    fn block(&self) -> &Block {
        // SAFETY: checked against the layout when the link was made; atomics only, valid for any
        // content, mapped as long as `segment` lives.
        unsafe { &*self.block }
    }

    #[inline]
    pub fn tx_shared(&self) -> &Shared {
        // SAFETY: a direction of the block: atomics only, mapped as long as `segment` lives.
        unsafe { &*self.tx_shared }
    }

    #[inline]
    pub fn rx_shared(&self) -> &Shared {
        // SAFETY: a direction of the block: atomics only, mapped as long as `segment` lives.
        unsafe { &*self.rx_shared }
    }

    /// The peer's hint that it has closed; only the kernel socket knows for sure.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        self.rx_shared().producer.closed.load(Ordering::Relaxed) != 0
    }

    /// The peer's hint that it has shut both directions down: what its kernel gets from then on draws a
    /// reset. It can still read what is in the ring.
    pub fn peer_shut_both(&self) -> bool {
        self.rx_shared().producer.closed.load(Ordering::Relaxed) == rendezvous::rings::SHUT_BOTH
    }

    /// It has closed, and left bytes of ours unread.
    pub fn peer_has_reset(&self) -> bool {
        self.rx_shared().producer.closed.load(Ordering::Relaxed) == rendezvous::rings::RESET
    }

    /// Tells a peer process that this side goes on without the ring pair.
    pub fn part(&self) {
        if !self.is_nic {
            self.mine().parted.store(1, Ordering::Release);
        }
    }

    pub fn other_has_parted(&self) -> bool {
        !self.is_nic && self.theirs().parted.load(Ordering::Acquire) != 0
    }

    pub fn mine(&self) -> &SideLine {
        &self.block().sides[self.side]
    }

    pub fn theirs(&self) -> &SideLine {
        &self.block().sides[1 - self.side]
    }

    /// Wakes the peer's waiters at these slots of a wire; `false` if one of them has no doorbell.
    #[inline]
    pub fn ring(&self, wire: &Tripwire, slots: Slots) -> bool {
        if slots == 0 {
            return true;
        }
        self.ring_each(wire, slots)
    }

    /// Wakes all of this process who wait at a wire of ours, threads and sets. It stays up.
    pub fn ring_own(&self, wire: &Tripwire) {
        for name in waiter::names_at(wire) {
            self.segment.post_own(self.side, self.conn, name);
            waiter::ring_own(name);
        }
    }

    /// Our own engine serves it.
    #[inline]
    pub fn is_inline(&self) -> bool {
        self.inline.load(Ordering::Relaxed)
    }

    pub fn set_inline(&self) {
        self.inline.store(true, Ordering::Relaxed);
    }

    /// Whoever empties the rings shall look at this connection.
    pub fn ring_engine(&self) {
        match self.is_inline() {
            true => engine::notice(self),
            false => self.ring_daemon(),
        }
    }

    /// The daemon shall look at this connection.
    pub fn ring_daemon(&self) {
        fence(Ordering::SeqCst);
        self.pair
            .ring(&self.segment, 1 - self.side, self.conn, DAEMON);
    }

    /// The daemon may ask us, if it could not yet: from here on everybody who waits hears of it.
    pub fn confirm_late(&self) {
        let stage = &self.mine().stage;
        if self.is_nic && stage.load(Ordering::Relaxed) != CONFIRMED {
            stage.store(CONFIRMED, Ordering::Release);
            self.ring_daemon();
        }
    }

    #[cold]
    fn ring_each(&self, wire: &Tripwire, slots: Slots) -> bool {
        self.guard.note();
        if self.is_inline() {
            engine::notice(self);
            return true;
        }
        if let Some(stamp) = self.segment.stamp_for(names(wire, slots)) {
            wire.leave_stamp(stamp.0);
        }
        let mut all = true;
        for name in names(wire, slots) {
            match self
                .pair
                .ring(&self.segment, 1 - self.side, self.conn, name)
            {
                // Most wires are of peers that spin: they cost nothing, and nobody counts them.
                Heard::Awake => {}
                Heard::Rung => waits::note(Wait::Woke),
                Heard::Later => all = false,
            }
        }
        all
    }
}

/// Whether bytes are left unread in a ring, seen without the connection: this process has no number for it any more.
pub struct RingRest {
    segment: Arc<PairSegment>,
    rx_shared: *const Shared,
    is_nic: bool,
    /// Where the reader was.
    read: u64,
}

// SAFETY: the pointer leads to atomics in the segment, which the Arc keeps mapped.
unsafe impl Send for RingRest {}

impl RingPair {
    /// For who has read up to `read`.
    pub fn rest(&self, read: u64) -> RingRest {
        RingRest {
            segment: Arc::clone(&self.segment),
            rx_shared: self.rx_shared,
            is_nic: self.is_nic,
            read,
        }
    }
}

impl RingRest {
    fn shared(&self) -> &Shared {
        debug_assert!(Arc::strong_count(&self.segment) > 0);
        // SAFETY: a direction of a block: atomics only, mapped as long as `segment` lives.
        unsafe { &*self.rx_shared }
    }

    pub fn unread(&self) -> u64 {
        self.shared().unread_in_ring(self.read)
    }

    /// Where the stream ends that has come into the ring so far.
    pub fn end(&self) -> u64 {
        Tail::read(&self.shared().producer.tail).offset()
    }

    /// Nothing is there, and while the reader wishes for the kernel nothing comes. An engine leaves no mark.
    pub fn is_over(&self) -> bool {
        !self.is_nic && self.shared().sender_is_on_kernel() && self.unread() == 0
    }
}

/// Who hangs at these slots of a wire, as the other side wrote it.
fn names(wire: &Tripwire, mut slots: Slots) -> impl Iterator<Item = u32> + '_ {
    std::iter::from_fn(move || {
        let slot = (slots != 0).then(|| slots.trailing_zeros() as usize)?;
        slots &= slots - 1;
        Some(wire.name(slot))
    })
}

/// How much of a large ring is used: where the stream stood at a look, and when that was.
#[derive(Default)]
pub struct Usage {
    written: AtomicU64,
    at: AtomicU64,
}

impl Usage {
    pub fn note(&self, written: u64, now: u64) {
        self.written.store(written, Ordering::Relaxed);
        self.at.store(now, Ordering::Relaxed);
    }

    /// Has a quarter of the ring been written since the last look? Too soon after it, nobody knows.
    pub fn is_busy(&self, written: u64, size: u64) -> bool {
        let now = os::clock::coarse_ms();
        if now < self.at.load(Ordering::Relaxed) + crate::runtime::reclaim_timer::PAUSE {
            return true;
        }
        let busy = written.saturating_sub(self.written.load(Ordering::Relaxed)) >= size / 4;
        if busy {
            self.note(written, now);
        }
        busy
    }
}

impl Drop for RingPair {
    fn drop(&mut self) {
        // A forked child's copy of a link says nothing about its parent's.
        if self.pair.is_mine() && !self.kept.load(Ordering::Relaxed) {
            if self.is_inline() {
                engine::let_go(self);
            }
            // Before the block is anybody else's. What we have sent may still be read; what we have
            // not read never will be.
            self.give_back(1 - self.side);
            if self.theirs().stage.load(Ordering::Acquire) == RELEASED {
                self.give_back(self.side);
            }
            self.mine().stage.store(RELEASED, Ordering::Release);
            self.segment.released(self.conn, self.side);
            if self.is_inline() {
                // It keeps a duplicate of the socket.
                self.ring_daemon();
            }
        }
    }
}
