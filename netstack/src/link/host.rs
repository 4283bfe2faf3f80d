//! What the host does with a link.

use super::conn::{Conn, ConnStage, Owed, Terms};
use super::event::Why;
use super::handshake::Shake;
use super::window::Window;
use super::{Id, Link, MOST_CREDIT};
use crate::time::Instant;

impl<W: Window + Clone> Link<W> {
    /// Opens a connection; the peer's host expects it. `None` if there are too many, or its ring
    /// has no size that credit can name.
    pub fn open(&mut self, now: Instant, terms: &Terms) -> Option<Id> {
        let id = self.add(terms, ConnStage::Opening)?;
        if let Some(conn) = self.conn(id) {
            conn.debts.add(Owed::Open);
        }
        self.greet(now);
        self.note(now, id);
        Some(id)
    }

    /// `[H1]` Gets to know the peer, also if there is nothing to send yet.
    pub fn greet(&mut self, now: Instant) {
        if self.shake == Shake::Down {
            self.shake = Shake::greet(now);
        }
    }

    /// `[R10]` Asks whether the peer is still there, also if there is nothing to send.
    pub fn ask(&mut self) {
        for path in &mut self.paths {
            // What is in flight asks already.
            path.ping_owed |= path.ledger().is_settled() && !path.is_left();
        }
    }

    /// `[C1]` Announces a connection that the peer will open. `None` as for `open`, or if one of that
    /// name is there already.
    pub fn expect(&mut self, terms: &Terms) -> Option<Id> {
        if self.names.contains_key(&terms.name) {
            return None;
        }
        let id = self.add(terms, ConnStage::Expected)?;
        self.names.insert(terms.name, id);
        Some(id)
    }

    fn add(&mut self, terms: &Terms, stage: ConnStage) -> Option<Id> {
        if terms.ring == 0 || terms.ring > MOST_CREDIT {
            return None;
        }
        let path = self.path_for(terms.name) as u8;
        let most = self.config.most_connections;
        self.table.add(most, |id| Conn::new(id, terms, stage, path))
    }

    /// Names are as good as random. `[R8]` Not a path that has been left.
    fn path_for(&self, name: u64) -> usize {
        let count = self.config.ways.len().max(1);
        let first = (name % count as u64) as usize;
        let works = |number: &usize| self.paths.get(*number).is_none_or(|path| !path.is_left());
        let mut others = (0..count).map(|step| (first + step) % count);
        others.find(works).unwrap_or(first)
    }

    /// The program has written up to here.
    #[inline]
    pub fn has_data(&mut self, now: Instant, id: Id, end: u64) {
        if let Some(conn) = self.table.get_mut(id) {
            conn.send.extend(end);
            self.note(now, id);
        }
    }

    /// `[K1]` The program has read up to here.
    #[inline]
    pub fn has_read(&mut self, now: Instant, id: Id, read: u64) {
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        conn.recv.make_room(read);
        self.tell_room(now, id);
    }

    /// `[C7]` No byte follows those that are written.
    pub fn close(&mut self, now: Instant, id: Id) {
        if let Some(conn) = self.conn(id) {
            conn.send.finish();
            self.note(now, id);
        }
    }

    /// `[C8]` Ends both directions at once. The link never touches its rings again.
    pub fn reset(&mut self, now: Instant, id: Id, reason: u16) {
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let unheard_of = match conn.stage {
            ConnStage::Expected => true,
            ConnStage::Opening => self.paths.is_empty(),
            ConnStage::Open | ConnStage::Resetting => false,
        };
        if unheard_of {
            self.forget(id);
            return;
        }
        conn.reset(reason);
        self.note(now, id);
    }

    /// `[H6]` Ends the link; the peer hears of it if the packet arrives.
    pub fn bye(&mut self) {
        self.bye = self.is_up();
        if !self.bye && (self.shake != Shake::Down || self.table.count() > 0) {
            self.die(Why::Bye);
            self.renew();
        }
    }
}
