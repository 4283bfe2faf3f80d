//! What a packet of a connection does to it.

use super::conn::{Conn, ConnStage, Owed, Placement};
use super::counters::Dropped;
use super::end::score;
use super::event::Event;
use super::streams::Streams;
use super::window::Window;
use super::{Id, Link, MOST_CREDIT, MOST_REFUSALS, reason};
use crate::crc32c::Crc;
use crate::time::Instant;
use crate::wire::Packet;
use crate::wire::body::Open;
use crate::wire::number::expand;

impl<W: Window + Clone> Link<W> {
    pub(super) fn hear_data(
        &mut self,
        now: Instant,
        id: Id,
        packet: &Packet<'_>,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        // [C8] What is not placed is not acknowledged: the peer counts on it.
        if conn.stage == ConnStage::Resetting {
            return Err(Dropped::Ended);
        }
        let offset = expand(packet.header.offset, conn.recv.placed());
        let end = offset
            .checked_add(packet.body.len() as u64)
            .ok_or(Dropped::Offset)?;
        let bytes = match conn.recv.place(offset..end) {
            Placement::Part(part) => part,
            Placement::Known => return self.hear_room(now, id, packet),
            Placement::Full => return Err(Dropped::Full),
            Placement::Forbidden => return Err(Dropped::Offset),
        };
        let from = (bytes.start - offset) as usize;
        let _ = streams.place(id, bytes.start, &packet.body[from..], Crc::START);
        // [C5] [C7]
        let reach = conn.recv.reach(&bytes);
        let ended = conn.recv.ends_at(reach);
        if reach > conn.recv.placed() && streams.publish(id, reach, ended).is_err() {
            return Err(self.freeze(now, id));
        }
        conn.recv.put(bytes);
        // [K4] Perhaps the peer has used up its credit only now.
        self.tell_room(now, id);
        self.hear_room(now, id, packet)?;
        self.end_if_over(id);
        Ok(())
    }

    /// `[C5]` The ring was taken away from us.
    #[cold]
    pub(super) fn freeze(&mut self, now: Instant, id: Id) -> Dropped {
        if let Some(conn) = self.table.get_mut(id) {
            conn.reset(reason::FROZEN);
            self.events.push_back(Event::Frozen(id));
            self.note(now, id);
        }
        Dropped::Frozen
    }

    /// `[K4]` Lets the peer know of room, if it is worth a packet.
    pub(super) fn tell_room(&mut self, now: Instant, id: Id) {
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let path = self.paths.get(usize::from(conn.path));
        let packet = path.map_or(0, |path| path.mtu.size());
        if conn.stage == ConnStage::Open && conn.recv.should_tell(packet as u64) {
            conn.debts.add(Owed::Credit);
            self.note(now, id);
        }
    }

    /// `[K3]` The credit that a packet carries.
    pub(super) fn hear_room(
        &mut self,
        now: Instant,
        id: Id,
        packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        let credit = expand(packet.header.credit, conn.send.credit());
        if conn.send.allow(credit) {
            conn.question.asked = 0;
            if let Some(at) = conn.question.at.take() {
                self.questions.remove(&(at, id));
            }
            self.note(now, id);
        }
        Ok(())
    }

    pub(super) fn hear_credit(
        &mut self,
        now: Instant,
        id: Id,
        packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        let placed = expand(packet.header.offset, conn.send.done());
        if placed > conn.send.next() {
            return Err(Dropped::Offset);
        }
        // [K5] The answer to a question.
        if packet.header.ask && conn.stage == ConnStage::Open {
            conn.recv.asked(conn.debts.has(Owed::Credit));
            conn.debts.add(Owed::Credit);
        }
        self.hear_room(now, id, packet)?;
        self.note(now, id);
        Ok(())
    }

    /// `[C1]` `[C3]`
    pub(super) fn hear_open(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), Dropped> {
        let open = Open::parse(packet.body).ok_or(Dropped::Length)?;
        let known = self.names.get(&open.name).copied();
        match known.and_then(|id| self.table.get_mut(id)) {
            Some(conn) if conn.stage == ConnStage::Expected => {
                let id = conn.id;
                conn.peer = Some(open.token);
                // [R8] That path works, at least in one direction.
                let path = self.path_to_answer_on(packet.header.path);
                if let Some(conn) = self.table.get_mut(id) {
                    conn.path = path;
                }
                self.agree(now, id, &open);
                Ok(())
            }
            // It came twice.
            Some(conn) if conn.peer == Some(open.token) => Ok(()),
            _ => {
                let is_known = self.refusals.iter().any(|(_, token)| *token == open.token);
                if self.refusals.len() < MOST_REFUSALS && !is_known {
                    let path = self.path_to_answer_on(packet.header.path);
                    self.refusals.push_back((path, open.token));
                }
                Err(Dropped::Offset)
            }
        }
    }

    /// `[R8]` The path on which a question came; unless it works only in that direction.
    fn path_to_answer_on(&self, path: u8) -> u8 {
        let works = |path: &super::Path<W>| !path.is_left();
        if self.paths.get(usize::from(path)).is_some_and(works) {
            return path;
        }
        let other = self.paths.iter().position(works);
        other.map_or(path, |other| other as u8)
    }

    /// `[C3]` Both ends have named their offsets.
    fn agree(&mut self, now: Instant, id: Id, open: &Open) {
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let mirrored =
            open.send_from == conn.terms.receive_from && open.receive_from == conn.terms.send_from;
        let possible = open.receive_from..=open.receive_from.saturating_add(MOST_CREDIT);
        if !mirrored || !possible.contains(&open.credit) {
            let score = score(conn);
            let reason = reason::DISAGREEMENT;
            conn.reset(reason);
            self.events.push_back(Event::Reset { id, reason, score });
            return self.note(now, id);
        }
        let accepted = conn.stage == ConnStage::Expected;
        conn.stage = ConnStage::Open;
        conn.send.allow(open.credit);
        if accepted {
            conn.debts.add(Owed::Accept);
        }
        self.events.push_back(Event::Open(id));
        self.note(now, id);
    }

    pub(super) fn hear_accept(
        &mut self,
        now: Instant,
        id: Id,
        packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        let open = Open::parse(packet.body).ok_or(Dropped::Length)?;
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        if open.name != conn.terms.name {
            return Err(Dropped::Offset);
        }
        match (conn.stage, conn.peer) {
            (ConnStage::Opening, _) => {
                conn.peer = Some(open.token);
                self.agree(now, id, &open);
            }
            // [C8] Now the peer can hear of the end.
            (ConnStage::Resetting, None) => {
                conn.peer = Some(open.token);
                conn.reset(conn.reason);
                self.note(now, id);
            }
            _ => {}
        }
        Ok(())
    }

    /// `[C7]`
    pub(super) fn hear_close(
        &mut self,
        now: Instant,
        id: Id,
        packet: &Packet<'_>,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        // [C8] The peer would take the end for read.
        if conn.stage == ConnStage::Resetting {
            return Err(Dropped::Ended);
        }
        let end = expand(packet.header.offset, conn.recv.placed());
        if !conn.recv.can_end_at(end) {
            return Err(Dropped::Offset);
        }
        let completes = end == conn.recv.placed() && !conn.recv.is_over();
        if completes && streams.publish(id, end, true).is_err() {
            return Err(self.freeze(now, id));
        }
        conn.recv.end_at(end);
        self.hear_room(now, id, packet)?;
        self.end_if_over(id);
        Ok(())
    }

    fn end_if_over(&mut self, id: Id) {
        if self
            .table
            .get_mut(id)
            .is_some_and(|conn| conn.recv.ends_now())
        {
            self.events.push_back(Event::Ended(id));
            self.close_if_over(id);
        }
    }

    /// `[C8]`
    pub(super) fn hear_reset(&mut self, id: Id, packet: &Packet<'_>) -> Result<(), Dropped> {
        let reason = packet.body.first_chunk().copied().map(u16::from_be_bytes);
        let reason = reason.ok_or(Dropped::Length)?;
        // [C1] An OPEN that was repeated came so late that its connection was over at the peer.
        let answers_open = reason == super::reason::UNEXPECTED;
        let has_answer = |conn: &Conn| conn.peer.is_some();
        if answers_open && self.table.get(id).is_some_and(has_answer) {
            return Ok(());
        }
        let conn = self.forget(id).ok_or(Dropped::Token)?;
        if conn.stage != ConnStage::Resetting {
            let score = score(&conn);
            self.events.push_back(Event::Reset { id, reason, score });
        }
        Ok(())
    }
}
