//! [W3] [C4] What was to come: bytes of an open connection that follow those that are there, on its path,
//! with no island beyond them and no end in sight. Nothing has to be skipped, joined or kept; a packet that
//! is otherwise goes through `hear`, which does the same and more.

use super::conn::Stage;
use super::counters::Dropped;
use super::streams::Streams;
use super::window::Window;
use super::{Id, Link};
use crate::time::Instant;
use crate::wire::number::low;
use crate::wire::{Kind, Packet};

/// The place of bytes that were to come.
pub(super) struct Next {
    pub id: Id,
    /// What is placed.
    pub from: u64,
}

impl<W: Window + Clone> Link<W> {
    /// Where its bytes go, if they were to come.
    #[inline]
    pub(super) fn next(&self, packet: &Packet<'_>) -> Option<Next> {
        let header = &packet.header;
        let id = Id::from_token(header.token);
        let conn = self.table.get(id)?;
        let from = conn.recv.placed();
        let is_next = header.kind == Kind::Data
            && conn.stage == Stage::Open
            && conn.path == header.path
            && low(from) == header.offset
            && conn.recv.has_room_behind(packet.body.len() as u64);
        is_next.then_some(Next { id, from })
    }

    /// They are in the ring, and right.
    #[inline]
    pub(super) fn append(
        &mut self,
        now: Instant,
        next: &Next,
        packet: &Packet<'_>,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let Next { id, from } = *next;
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        let end = from + packet.body.len() as u64;
        // [C5]
        if streams.publish(id, end, false).is_err() {
            return Err(self.freeze(now, id));
        }
        conn.recv.append(end);
        // [K3]
        let news = low(conn.send.credit()) != packet.header.credit;
        // [K4]
        self.tell_room(now, id);
        match news {
            true => self.hear_room(now, id, packet),
            false => Ok(()),
        }
    }
}
