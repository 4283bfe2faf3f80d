//! `[S1]` `[S2]` `[C10]` Whose turn it is.

use alloc::collections::VecDeque;

use super::Id;
use super::conn::{Conn, Queued, Turn};

#[derive(Debug, Default)]
pub struct Schedule {
    /// Those that owe something besides bytes.
    control: VecDeque<Id>,
    /// Those whose bytes were lost.
    lost: VecDeque<Id>,
    /// Those that had nothing to send and now have.
    fresh: VecDeque<Id>,
    /// Those that take turns.
    round: VecDeque<Id>,
    /// The number of this round, and how many have yet to have their turn in it.
    number: u64,
    left: usize,
    /// Entries of connections that are over, or on another path now, at most.
    stale: usize,
}

/// `[X2]` Stale entries that do not matter, whatever the number of connections.
const CLUTTER: usize = 64;

/// `[S2]` Bytes that a connection may send in a round as a fresh one: no more than one packet, in however
/// many.
const SHARE: u64 = super::mtu::BASE as u64 - 28;

impl Schedule {
    /// `[X2]` A connection has gone elsewhere, and its entries stay.
    pub fn leave_behind(&mut self, queued: Queued) {
        self.stale += queued.count();
    }

    /// `[X2]` There are more stale entries than connections: it is time to begin anew.
    pub fn is_cluttered(&self, connections: usize) -> bool {
        self.stale > CLUTTER + 2 * connections
    }

    pub fn clear(&mut self) {
        *self = Schedule {
            number: self.number + 1,
            ..Schedule::default()
        };
    }

    /// Notes what a connection has to send; called whenever that may have changed.
    #[inline]
    pub fn note(&mut self, conn: &mut Conn) {
        if !conn.debts.is_empty() && !conn.queued.control {
            conn.queued.control = true;
            self.control.push_back(conn.id);
        }
        if !conn.can_send() {
            return;
        }
        if !conn.queued.lost && conn.send.has_lost() {
            conn.queued.lost = true;
            self.lost.push_back(conn.id);
        }
        if !conn.queued.data && !conn.send.fresh().is_empty() {
            conn.queued.data = true;
            let had_its_share = conn.turn.round == self.number && conn.turn.spent >= SHARE;
            // With nobody to make room for, first come is first served.
            match had_its_share && !self.round.is_empty() {
                true => self.round.push_back(conn.id),
                false => self.fresh.push_back(conn.id),
            }
        }
    }

    /// Nothing but bytes that never left waits for its turn.
    #[inline]
    pub fn is_fresh_only(&self) -> bool {
        self.control.is_empty() && self.lost.is_empty()
    }

    /// Nobody waits for its turn.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.is_fresh_only() && self.fresh.is_empty() && self.round.is_empty()
    }

    pub fn first_control(&self) -> Option<Id> {
        self.control.front().copied()
    }

    pub fn first_lost(&self) -> Option<Id> {
        self.lost.front().copied()
    }

    #[inline]
    pub fn first_data(&self) -> Option<Id> {
        self.fresh.front().or(self.round.front()).copied()
    }

    pub fn control_done(&mut self) {
        self.control.pop_front();
    }

    /// Its turn is over; if more was lost the next one comes behind the others'.
    pub fn lost_done(&mut self, more: bool) {
        if let Some(id) = self.lost.pop_front()
            && more
        {
            self.lost.push_back(id);
        }
    }

    /// One packet was its turn.
    pub fn data_done(&mut self, conn: &mut Conn, bytes: u64) {
        self.data_left();
        if conn.turn.round != self.number {
            conn.turn = Turn {
                round: self.number,
                spent: 0,
            };
        }
        conn.turn.spent += bytes;
        conn.queued.data = !conn.send.fresh().is_empty();
        if conn.queued.data {
            self.round.push_back(conn.id);
        }
    }

    /// The first one's turn is over.
    pub fn data_left(&mut self) {
        if self.fresh.pop_front().is_some() {
            return;
        }
        if self.left == 0 {
            self.number += 1;
            self.left = self.round.len();
        }
        self.left = self.left.saturating_sub(1);
        self.round.pop_front();
    }
}
