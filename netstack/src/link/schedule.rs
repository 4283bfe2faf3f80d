//! [S1] [S2] [C10] Whose turn it is.

use alloc::collections::VecDeque;

use super::conn::Conn;
use super::Id;

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
}

impl Schedule {
    pub fn clear(&mut self) {
        *self = Schedule::default();
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
        if !conn.queued.lost && conn.send.again().is_some() {
            conn.queued.lost = true;
            self.lost.push_back(conn.id);
        }
        if !conn.queued.data && !conn.send.fresh().is_empty() {
            conn.queued.data = true;
            self.fresh.push_back(conn.id);
        }
    }

    pub fn first_control(&self) -> Option<Id> {
        self.control.front().copied()
    }

    pub fn first_lost(&self) -> Option<Id> {
        self.lost.front().copied()
    }

    pub fn first_data(&self) -> Option<Id> {
        self.fresh.front().or(self.round.front()).copied()
    }

    pub fn control_done(&mut self) {
        self.control.pop_front();
    }

    /// Its turn is over; if more was lost the next one comes behind the others'.
    pub fn lost_done(&mut self, more: bool) {
        if let Some(id) = self.lost.pop_front() {
            if more {
                self.lost.push_back(id);
            }
        }
    }

    /// One packet was its turn. It stays in the round even if it has nothing left, until its turn comes
    /// again: else a connection with many small messages would always be a fresh one.
    pub fn data_done(&mut self) {
        if let Some(id) = self.fresh.pop_front().or_else(|| self.round.pop_front()) {
            self.round.push_back(id);
        }
    }

    /// It had nothing to send when its turn came.
    pub fn data_left(&mut self) {
        if self.fresh.pop_front().is_none() {
            self.round.pop_front();
        }
    }
}
