//! A connection whose rings lead to the daemon of this host, and by the link to another (docs/failover.md).
//!
//! To sends and receives its rings are like those between two processes. What differs is how they are
//! entered and left: both directions at once, at a byte that both ends know ([`join`]); and back by a
//! record in the kernel's own stream ([`leave`], [`hear`]). The decisions are those of
//! [`failover::Side`]; a record that arrives is written down as the mark that the peer could not write
//! here, so that the receiver goes on as between two processes.
//!
//! `Side` is in the socket record, and touched under the sending lock alone. Who needs the receiving lock
//! too takes that first.

mod end;
mod hear;
mod join;
mod leave;
mod patience;
mod trials;
mod trust;
mod verdict;
mod watch;
mod worth;

use std::sync::atomic::Ordering;

use netstack::failover::{self, Side, Stage};
use netstack::ring::{Tail, TxState, tail};

use super::Conn;
use crate::state::record::{Record, Role, flag};
use crate::state::ring_pair::RingPair;

pub use hear::Heard;
pub use watch::{LOOK, before_sleep, has_sent, look as look_after};
pub use worth::{is_asked, stays_plain};

/// What both ends and the engine have of a promotion.
struct Segment<'a>(&'a RingPair);

impl failover::Segment for Segment<'_> {
    fn tail(&self) -> Tail {
        Tail::read(&self.0.rx_shared().producer.tail)
    }

    fn freeze(&self) -> Tail {
        tail::freeze(&self.0.rx_shared().producer.tail)
    }

    fn freed(&self) -> u64 {
        self.0.tx_shared().consumer.head.load(Ordering::Acquire)
    }

    fn filled(&self) -> u64 {
        self.0.tx_shared().producer.tail.load(Ordering::Acquire)
    }
}

impl Conn<'_> {
    /// Does its link lead to the daemon?
    #[inline]
    pub fn is_nic(&self) -> bool {
        self.link.is_nic
    }

    /// Who sleeps without a bell must look for what the link brings, again and again: its engine heeds no wishes, and
    /// another thread may agree to a promotion meanwhile. The mail to the daemon is full for a moment, so a bell will
    /// be had soon; another process than the one that has the mail never gets to the link.
    pub fn must_look_for_link(&self) -> bool {
        self.is_nic() && self.link.pair.is_mine()
    }

    fn segment(&self) -> Segment<'_> {
        Segment(self.link)
    }

    /// Proves that the sending lock is held: a reference to the state of this record's sending direction exists only then.
    fn assert_locked(&self, tx: &TxState) {
        assert!(std::ptr::eq(tx, self.record.tx.state.get()));
    }

    /// On a connection that has been shown to a daemon, whose sending state is `tx`.
    fn failover<R>(&self, tx: &TxState, act: impl FnOnce(&mut Side) -> R) -> R {
        self.assert_locked(tx);
        assert!(self.record.has(flag::NIC));
        // SAFETY: the sending lock is held (`assert_locked`), and nobody looks at it without. With the flag set, `begin` has
        // filled it.
        let side = unsafe { (*self.record.nic.side.get()).assume_init_mut() };
        let result = act(side);
        // What the kernel brings next may be a record, as long as it need not be plain bytes.
        let looks = !side.is_plain() && side.stage() != Stage::Linked;
        if looks != self.record.has(flag::RECORD_MAY_COME) {
            self.record.put(flag::RECORD_MAY_COME, looks);
        }
        result
    }

    fn stage(&self, tx: &TxState) -> Stage {
        self.failover(tx, |side| side.stage())
    }

    /// A promotion is under way: no byte is accepted from the program.
    pub(super) fn is_joining(&self) -> bool {
        self.record.has(flag::JOINING)
    }
}

/// The connection has rings that lead to the daemon, if this is the first time: it knows of no promotion.
/// How far the program has read is told later, when it is known. Before it is managed: nobody else looks.
pub fn begin(record: &Record) {
    if record.has(flag::NIC) {
        return;
    }
    let role = match record.role() {
        Role::Connected => failover::Role::Connected,
        Role::Accepted => failover::Role::Accepted,
    };
    // SAFETY: without the flag nobody looks at it.
    unsafe { (*record.nic.side.get()).write(Side::new(role, 0)) };
    record.set(flag::NIC);
}
