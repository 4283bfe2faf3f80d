//! What became of packets that we sent, told to those that they carried something for.

use super::conn::{ConnStage, Owed};
use super::ledger::Content;
use super::path::{Acknowledged, Fate};
use super::streams::Streams;
use super::window::Window;
use super::{Id, Link};
use crate::time::Instant;

impl<W: Window + Clone> Link<W> {
    /// What the peer has received.
    #[inline]
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        acknowledged: &Acknowledged<'_>,
        streams: &mut impl Streams,
    ) {
        let number = usize::from(acknowledged.ack.path());
        // BYE leaves none.
        let Some(path) = self.paths.get_mut(number) else {
            return;
        };
        if path.is_next(acknowledged) {
            self.advance(now, acknowledged, streams);
        } else {
            path.acknowledge(now, acknowledged, &mut self.fates);
        }
        if !self.fates.is_empty() {
            self.settle(now, number, streams);
        }
    }

    /// Tells connections what became of their packets.
    pub(super) fn settle(&mut self, now: Instant, path: usize, streams: &mut impl Streams) {
        let mut told = 0;
        while let Some(&(fate, content)) = self.fates.get(told) {
            told += 1;
            match (fate, content) {
                (Fate::Acknowledged, Content::Data { id, offset, length }) => {
                    let conn = self.table.get_mut(id);
                    // [C8] The host has taken the rings of one that it has reset.
                    let Some(conn) = conn.filter(|conn| conn.stage != ConnStage::Resetting) else {
                        continue;
                    };
                    let bytes = offset..offset + u64::from(length);
                    // [C6]
                    if let Some(done) = conn.send.acknowledge(bytes) {
                        streams.release(id, done);
                        if conn.send.is_over() {
                            self.end_acked(id);
                        }
                    }
                }
                (Fate::Lost, Content::Data { id, offset, length }) => {
                    if let Some(conn) = self.table.get_mut(id) {
                        conn.send.lose(offset..offset + u64::from(length));
                        self.note(now, id);
                    }
                }
                (Fate::Acknowledged, Content::Owed { id, what }) => self.paid(id, what),
                (Fate::Lost, Content::Owed { id, what }) => self.owe_again(now, id, what),
                (Fate::Acknowledged, Content::Ping { tried: Some(size) }) => {
                    if let Some(path) = self.paths.get_mut(path) {
                        path.tried(now, size);
                    }
                }
                (_, Content::Ping { .. }) => {}
            }
        }
        self.fates.clear();
    }

    fn paid(&mut self, id: Id, what: Owed) {
        let Some(conn) = self.conn(id) else { return };
        if what != Owed::Credit {
            conn.debts.remove(what);
        }
        match what {
            Owed::Close => {
                if conn.send.close_acknowledged() {
                    self.end_acked(id);
                }
            }
            Owed::Reset => {
                self.forget(id);
            }
            Owed::Open | Owed::Accept | Owed::Credit | Owed::Question => {}
        }
    }

    /// `[R3]` As far as it is still needed.
    fn owe_again(&mut self, now: Instant, id: Id, what: Owed) {
        let Some(conn) = self.conn(id) else { return };
        if conn.still_owes(what) {
            if what == Owed::Credit {
                conn.recv.tell_again();
            }
            conn.debts.add(what);
        }
        self.note(now, id);
    }
}
