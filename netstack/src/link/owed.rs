//! What leaves besides bytes: the packets that connections owe, and the refusals of those that nobody expects.

use super::conn::{Conn, ConnStage, Owed};
use super::ledger::Content;
use super::window::Window;
use super::{Id, Link, reason};
use crate::time::Instant;
use crate::wire::body::{OPEN, Open};
use crate::wire::number::low;
use crate::wire::{Header, Kind};

impl<W: Window + Clone> Link<W> {
    /// What a connection owes besides bytes.
    pub(super) fn pay(&mut self, number: usize, now: Instant, out: &mut [u8]) -> Option<usize> {
        // [X2]
        if self.paths[number].is_full(self.config.most_packets) {
            return None;
        }
        loop {
            let id = self.paths[number].schedule.first_control()?;
            let owed = self.served(number, id).and_then(|conn| conn.debts.first());
            let Some(owed) = owed else {
                self.paths[number].schedule.control_done();
                if let Some(conn) = self.served_mut(number, id) {
                    conn.queued.control = false;
                }
                continue;
            };
            return self.pay_one(number, now, id, owed, false, out);
        }
    }

    /// Writes one packet that a connection owes.
    pub(super) fn pay_one(
        &mut self,
        number: usize,
        now: Instant,
        id: Id,
        owed: Owed,
        ask: bool,
        out: &mut [u8],
    ) -> Option<usize> {
        let tag = self.shake.peer()?.tag;
        let conn = self.table.get_mut(id)?;
        conn.debts.remove(owed);
        let (kind, body) = body_of(conn, owed);
        let mut header = Header {
            tag,
            ask: ask || owed == Owed::Question,
            token: conn.peer.filter(|_| kind.has_token()).unwrap_or(0),
            ..Header::of(kind)
        };
        match owed {
            Owed::Close => header.offset = low(conn.send.end()),
            Owed::Credit | Owed::Question | Owed::Reset => header.offset = low(conn.recv.placed()),
            Owed::Open | Owed::Accept => {}
        }
        if kind.has_token() && kind != Kind::Accept {
            let packet = self.paths.get(number)?.mtu.size();
            header.credit = low(conn.recv.tell_if_worthwhile(packet as u64));
        }
        if owed == Owed::Close {
            conn.send.close_sent();
        }
        let content = Content::Owed { id, what: owed };
        self.send(number, now, header, Some(content), out, |out, _| {
            let body = body.as_slice();
            out.get_mut(..body.len())?.copy_from_slice(body);
            Some(body.len())
        })
    }

    /// `[C1]` Answers OPEN for a connection that nobody expects.
    pub(super) fn refuse(&mut self, number: usize, now: Instant, out: &mut [u8]) -> Option<usize> {
        let tag = self.shake.peer()?.tag;
        // [X2]
        if self.paths[number].is_full(self.config.most_packets) {
            return None;
        }
        let is_here = |&(path, _): &(u8, u64)| usize::from(path) == number;
        let at = self.refusals.iter().position(is_here)?;
        let (_, token) = self.refusals.remove(at)?;
        let header = Header {
            tag,
            token,
            ..Header::of(Kind::Reset)
        };
        let content = Content::Ping { tried: None };
        self.send(number, now, header, Some(content), out, |out, _| {
            *out.first_chunk_mut()? = reason::UNEXPECTED.to_be_bytes();
            Some(2)
        })
    }
}

/// A short body.
struct Body {
    bytes: [u8; OPEN],
    length: usize,
}

impl Body {
    fn new(content: &[u8]) -> Body {
        let mut bytes = [0; OPEN];
        bytes[..content.len()].copy_from_slice(content);
        Body {
            bytes,
            length: content.len(),
        }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn body_of(conn: &mut Conn, owed: Owed) -> (Kind, Body) {
    match owed {
        Owed::Open | Owed::Accept => {
            let open = Open {
                name: conn.terms.name,
                token: conn.id.token(),
                send_from: conn.terms.send_from,
                receive_from: conn.terms.receive_from,
                credit: conn.recv.tell(),
            };
            let kind = match owed {
                Owed::Open => Kind::Open,
                _ => Kind::Accept,
            };
            (kind, Body::new(&open.emit()))
        }
        Owed::Reset => {
            debug_assert!(conn.stage == ConnStage::Resetting);
            (Kind::Reset, Body::new(&conn.reason.to_be_bytes()))
        }
        Owed::Credit | Owed::Question => (Kind::Credit, Body::new(&[])),
        Owed::Close => (Kind::Close, Body::new(&[])),
    }
}
