//! What the host does with a link.

use super::conn::{Conn, Owed, Stage, Terms};
use super::handshake::Shake;
use super::window::Window;
use super::{Id, Link};
use crate::time::Instant;

impl<W: Window + Clone> Link<W> {
    /// Opens a connection; the peer's host expects it. `None` if there are too many.
    pub fn open(&mut self, now: Instant, terms: &Terms) -> Option<Id> {
        let id = self.add(terms, Stage::Opening)?;
        if let Some(conn) = self.conn(id) {
            conn.debts.add(Owed::Open);
        }
        if self.shake == Shake::Down {
            self.shake = Shake::greet(now);
        }
        self.note(now, id);
        Some(id)
    }

    /// [C1] Announces a connection that the peer will open. `None` if there are too many, or one of
    /// that name is there already.
    pub fn expect(&mut self, terms: &Terms) -> Option<Id> {
        if self.names.contains_key(&terms.name) {
            return None;
        }
        let id = self.add(terms, Stage::Expected)?;
        self.names.insert(terms.name, id);
        Some(id)
    }

    fn add(&mut self, terms: &Terms, stage: Stage) -> Option<Id> {
        let paths = self.config.ways.len() as u64;
        // Names are as good as random.
        let path = (terms.name % paths.max(1)) as u8;
        let most = self.config.most_connections;
        self.table.add(most, |id| Conn::new(id, terms, stage, path))
    }

    /// The program has written up to here.
    #[inline]
    pub fn has_data(&mut self, now: Instant, id: Id, end: u64) {
        if let Some(conn) = self.table.get_mut(id) {
            conn.send.extend(end);
            self.note(now, id);
        }
    }

    /// [K1] The program has read up to here.
    #[inline]
    pub fn has_read(&mut self, now: Instant, id: Id, read: u64) {
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        conn.recv.make_room(read);
        let packet = self
            .paths
            .get(usize::from(conn.path))
            .map_or(0, |path| path.mtu.size());
        // [K4]
        if conn.stage == Stage::Open && conn.recv.should_tell(packet as u64) {
            conn.debts.add(Owed::Credit);
            self.note(now, id);
        }
    }

    /// [C7] No byte follows those that are written.
    pub fn close(&mut self, now: Instant, id: Id) {
        if let Some(conn) = self.conn(id) {
            conn.send.finish();
            self.note(now, id);
        }
    }

    /// [C8] Ends both directions at once.
    pub fn reset(&mut self, now: Instant, id: Id, reason: u16) {
        let Some(conn) = self.conn(id) else { return };
        if conn.stage == Stage::Expected || conn.peer.is_none() {
            self.forget(id);
            return;
        }
        conn.stage = Stage::Resetting;
        conn.reason = reason;
        conn.debts.clear();
        conn.debts.add(Owed::Reset);
        self.note(now, id);
    }

    /// [H6] Ends the link; the peer hears of it if the packet arrives.
    pub fn bye(&mut self) {
        self.bye = self.is_up();
        if !self.bye {
            self.shake = Shake::Down;
        }
    }
}
