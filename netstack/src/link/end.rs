//! How connections and links end.

use alloc::vec::Vec;

use super::conn::{Conn, ConnStage, Owed, Queued};
use super::event::{Event, Score, Why};
use super::handshake::Shake;
use super::window::Window;
use super::{Id, Link};

impl<W: Window + Clone> Link<W> {
    /// Takes a connection out; its token never matches again.
    pub(super) fn forget(&mut self, id: Id) -> Option<Conn> {
        let conn = self.table.remove(id)?;
        if let Some(at) = conn.question.at {
            self.questions.remove(&(at, id));
        }
        if self.names.get(&conn.terms.name) == Some(&id) {
            self.names.remove(&conn.terms.name);
        }
        self.leave_behind(conn.path.into(), conn.queued);
        Some(conn)
    }

    /// `[X2]` What waited for its turn on a path does so no more; its entries are passed over, unless there are too
    /// many by now.
    pub(super) fn leave_behind(&mut self, number: usize, queued: Queued) {
        let Some(path) = self.paths.get_mut(number).filter(|_| queued.count() > 0) else {
            return;
        };
        path.schedule.leave_behind(queued);
        if path.schedule.is_cluttered(self.table.count()) {
            path.schedule.clear();
            let on_path = |conn: &&mut Conn| usize::from(conn.path) == number;
            for conn in self.table.iter_mut().filter(on_path) {
                conn.queued = Queued::default();
                path.schedule.note(conn);
            }
        }
    }

    /// `[C11]` The last acknowledgement has come: of a byte, or of CLOSE. `[C8]` But not for one that is reset.
    pub(super) fn end_acked(&mut self, id: Id) {
        if self.table.get(id).is_some_and(Conn::can_send) {
            self.events.push_back(Event::EndAcked(id));
            self.close_if_over(id);
        }
    }

    /// `[C9]`
    pub(super) fn close_if_over(&mut self, id: Id) {
        if self.table.get(id).is_some_and(Conn::is_over) {
            self.forget(id);
            self.events.push_back(Event::Closed(id));
        }
    }

    /// `[R7]` The link is no more: every connection is told of, with what is placed and acknowledged.
    pub(super) fn die(&mut self, why: Why) {
        for id in self.table.ids() {
            if why == Why::Restarted && self.begin_again(id) {
                continue;
            }
            // The host has ended those that are `Resetting` itself.
            if let Some(conn) = self
                .forget(id)
                .filter(|conn| conn.stage != ConnStage::Resetting)
            {
                let score = score(&conn);
                self.events.push_back(Event::Lost { id, score });
            }
        }
        for path in &self.paths {
            self.counters.packets_lost += path.lost;
            self.counters.packets_late += path.late;
        }
        self.paths = Vec::new();
        self.refusals.clear();
        self.shake = Shake::Down;
        self.confirm = None;
        self.confirm_owed = false;
        self.bye = false;
        self.events.push_back(Event::Dead(why));
    }

    /// `[H4]` A connection that the peer has not answered for may be one with its new incarnation.
    fn begin_again(&mut self, id: Id) -> bool {
        let Some(conn) = self.table.get_mut(id) else {
            return false;
        };
        conn.queued = Queued::default();
        match conn.stage {
            ConnStage::Expected => true,
            ConnStage::Opening => {
                conn.debts.add(Owed::Open);
                true
            }
            ConnStage::Open | ConnStage::Resetting => false,
        }
    }

    /// `[H7]` The next link of ours is another one, also to a peer that has not noticed the end of this.
    pub(super) fn renew(&mut self) {
        let incarnation = &mut self.config.identity.incarnation;
        *incarnation = incarnation.wrapping_add(1);
    }
}

pub(super) fn score(conn: &Conn) -> Score {
    Score {
        placed: conn.recv.placed(),
        acknowledged: conn.send.done(),
    }
}
