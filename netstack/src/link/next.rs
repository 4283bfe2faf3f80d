//! What was to come, and is most of what comes.
//!
//! `[W3]` `[C4]` Bytes of an open connection that follow those that are there, on its path, with no island
//! beyond them and no end in sight: nothing has to be skipped, joined or kept. `[C6]` Acknowledgements of the
//! oldest packets, none of them lost, and of their bytes in order. Whatever is otherwise goes
//! through `hear` and `settle`, which do the same and more.

use super::conn::ConnStage;
use super::ledger::Content;
use super::path::Acknowledged;
use super::receive::check;
use super::streams::Streams;
use super::window::Window;
use super::{Id, Link};
use crate::crc32c::Crc;
use crate::time::Instant;
use crate::wire::frame::Ecn;
use crate::wire::number::{expand, low};
use crate::wire::{Kind, Packet};

impl<W: Window + Clone> Link<W> {
    /// Takes in a packet that was to come. `None` if it is another, or anything about it is wrong: then
    /// nothing has changed.
    #[inline]
    pub(super) fn take_next(
        &mut self,
        now: Instant,
        ecn: Ecn,
        packet: &Packet<'_>,
        crc: Crc,
        streams: &mut impl Streams,
    ) -> Option<()> {
        let header = &packet.header;
        let id = Id::from_token(header.token);
        let conn = self.table.get(id)?;
        let from = conn.recv.placed();
        let path = self.paths.get(usize::from(header.path))?;
        let number = expand(header.number, path.received.expected());
        let is_next = header.kind == Kind::Data
            && conn.stage == ConnStage::Open
            && conn.path == header.path
            && low(from) == header.offset
            && conn.recv.has_room_behind(packet.body.len() as u64)
            && number >= path.received.expected();
        if !is_next {
            return None;
        }
        // [W3] Copied and checked in one pass.
        let crc = streams.place(id, from, packet.body, crc);
        check(packet, crc).ok()?;
        let acknowledged = match &packet.ack {
            Some(ack) => Some(self.check_acknowledgement(ack).ok()?),
            None => None,
        };
        self.append(now, id, packet, streams)?;
        let path = self.paths.get_mut(usize::from(header.path))?;
        path.received.note(now, number, header.ask, ecn);
        self.finish(now, acknowledged, streams);
        Some(())
    }

    /// The bytes are in the ring, and right.
    #[inline(always)]
    fn append(
        &mut self,
        now: Instant,
        id: Id,
        packet: &Packet<'_>,
        streams: &mut impl Streams,
    ) -> Option<()> {
        let conn = self.table.get_mut(id)?;
        let path = self.paths.get(usize::from(conn.path))?;
        let end = conn.recv.placed() + packet.body.len() as u64;
        // [C5]
        streams.publish(id, end, false).ok()?;
        conn.recv.append(end);
        // [K3] [K4]
        let hears = low(conn.send.credit()) != packet.header.credit;
        if hears || conn.recv.should_tell(path.mtu.size() as u64) {
            self.tell_room(now, id);
            self.hear_room(now, id, packet).ok()?;
        }
        Some(())
    }

    /// The oldest packets of a path are acknowledged.
    #[inline]
    pub(super) fn advance(
        &mut self,
        now: Instant,
        acknowledged: &Acknowledged<'_>,
        streams: &mut impl Streams,
    ) {
        let Link {
            paths,
            table,
            fates,
            ..
        } = self;
        let Some(path) = paths.get_mut(usize::from(acknowledged.ack.path())) else {
            return;
        };
        path.advance(now, acknowledged, fates, |content| {
            let Content::Data { id, offset, length } = *content else {
                return false;
            };
            let conn = table.get_mut(id).filter(|conn| conn.can_send());
            let done = conn.and_then(|conn| conn.send.advance(offset, length));
            if let Some(done) = done {
                streams.release(id, done);
            }
            done.is_some()
        });
    }
}
