//! What arrives.

use super::conn::{Owed, Place, Stage};
use super::counters::Dropped;
use super::end::score;
use super::event::{Event, Why};
use super::handshake::{self, Shake};
use super::ledger::Content;
use super::path::{Fate, Fates, Path};
use super::received::Known;
use super::streams::Streams;
use super::window::Window;
use super::{reason, Id, Link, MOST_REFUSALS};
use crate::crc32c::Crc;
use crate::time::Instant;
use crate::wire::body::{Hello, Open, Welcome};
use crate::wire::frame::Ecn;
use crate::wire::number::expand;
use crate::wire::{Addresses, Kind, Packet, Seal};

/// [W4] More could not be told apart from less.
const MOST_CREDIT: u64 = (1 << 31) - 1;

/// A datagram as it came in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub addresses: Addresses,
    pub ecn: Ecn,
    pub payload: &'a [u8],
}

impl<W: Window + Clone> Link<W> {
    /// [X1] Takes in a datagram. One that is not right has changed nothing, and is counted.
    pub fn receive(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let taken = match Packet::parse(arrival.payload) {
            Err(malformed) => Err(malformed.into()),
            Ok(packet) => match packet.header.kind {
                Kind::Hello => self.hear_hello(arrival, &packet),
                Kind::Welcome => self.hear_welcome(now, arrival, &packet),
                Kind::Confirm => self.hear_confirm(now, arrival, &packet),
                _ => self.take(now, arrival, &packet, streams),
            },
        };
        match taken {
            Ok(()) => self.counters.packets_received += 1,
            Err(why) => self.counters.drop(why),
        }
        taken
    }

    /// The way a packet came, if it is one of ours.
    fn way(&self, arrival: &Arrival<'_>) -> Result<u8, Dropped> {
        let ways = self.config.ways.iter();
        ways.zip(0..)
            .find_map(|(way, number)| (way.incoming == arrival.addresses).then_some(number))
            .ok_or(Dropped::Way)
    }

    /// [H2]
    fn hear_hello(&mut self, arrival: &Arrival<'_>, packet: &Packet<'_>) -> Result<(), Dropped> {
        let way = self.way(arrival)?;
        check_stranger(arrival, packet)?;
        let hello = Hello::parse(packet.body).ok_or(Dropped::Length)?;
        if hello.incarnation == self.config.identity.incarnation {
            return Err(Dropped::Handshake);
        }
        let welcome = handshake::welcome(&self.config.identity, &hello);
        // [X3] One answer, for the last that has asked.
        self.answer = Some((way, hello.tag, welcome));
        Ok(())
    }

    /// [H3]
    fn hear_welcome(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        self.way(arrival)?;
        let identity = self.config.identity;
        if packet.header.tag != identity.tag {
            return Err(Dropped::Tag);
        }
        check_stranger(arrival, packet)?;
        let welcome = Welcome::parse(packet.body).ok_or(Dropped::Length)?;
        let greeting = matches!(self.shake, Shake::Greeting { .. });
        if !greeting || welcome.you != identity.incarnation {
            return Err(Dropped::Handshake);
        }
        self.confirm = Some(Welcome {
            me: Hello {
                incarnation: identity.incarnation,
                tag: identity.tag,
            },
            you: welcome.me.incarnation,
            challenge: welcome.challenge,
        });
        self.confirm_owed = true;
        self.come_up(now, welcome.me, false);
        Ok(())
    }

    /// [H4]
    fn hear_confirm(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        self.way(arrival)?;
        let identity = self.config.identity;
        if packet.header.tag != identity.tag {
            return Err(Dropped::Tag);
        }
        let confirm = Welcome::parse(packet.body).ok_or(Dropped::Length)?;
        let peer = confirm.me;
        let seal = Seal::link(&arrival.addresses, peer.incarnation, identity.incarnation);
        check(packet, seal.head(packet.head()).over(packet.body))?;
        let genuine = confirm.you == identity.incarnation
            && confirm.challenge == handshake::challenge(&identity, peer.incarnation);
        if !genuine {
            return Err(Dropped::Handshake);
        }
        match &mut self.shake {
            // [H5]
            Shake::Up { peer: known, heard } if *known == peer => *heard = true,
            Shake::Up { .. } => {
                self.die(Why::Restarted);
                self.come_up(now, peer, true);
            }
            _ => self.come_up(now, peer, true),
        }
        Ok(())
    }

    fn come_up(&mut self, now: Instant, peer: Hello, heard: bool) {
        let me = self.config.identity.incarnation;
        let path = |way: &_| {
            let window = self.window.clone();
            Path::new(*way, me, peer.incarnation, &self.config, window)
        };
        self.paths = self.config.ways.iter().map(path).collect();
        self.shake = Shake::Up { peer, heard };
        self.events.push_back(Event::Up);
        for id in self.table.ids() {
            self.note(now, id);
        }
    }

    /// A packet of a link that is up.
    #[inline]
    fn take(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        packet: &Packet<'_>,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let header = &packet.header;
        let path_number = usize::from(header.path);
        if header.tag != self.config.identity.tag || !self.is_up() {
            return Err(Dropped::Tag);
        }
        let path = self.paths.get(path_number).ok_or(Dropped::Way)?;
        if path.way.incoming != arrival.addresses {
            return Err(Dropped::Way);
        }
        let number = expand(header.number, path.received.expected());
        let known = path.received.knows(number);
        let id = Id::from_token(header.token);
        let crc = path.incoming.head(packet.head());
        // [W3] What simply follows is copied and checked in one pass.
        let next = header.kind == Kind::Data && known == Known::New && self.is_next(id, packet);
        let crc = if next {
            let placed = self.table.get(id).map_or(0, |conn| conn.recv.placed());
            streams.place(id, placed, packet.body, crc)
        } else {
            crc.over(packet.body)
        };
        check(packet, crc)?;
        self.check_acknowledgement(packet)?;
        if header.kind.is_asking() {
            match known {
                Known::New => {}
                // [P2]
                Known::Again => {
                    self.paths[path_number].received.again(now);
                    return Err(Dropped::Again);
                }
                Known::TooOld => return Err(Dropped::Again),
            }
            self.deliver(now, packet, next, streams)?;
            // [P7] BYE leaves no path.
            if let Some(path) = self.paths.get_mut(path_number) {
                path.received.note(now, number, header.ask, arrival.ecn);
            }
        }
        if let Shake::Up { heard, .. } = &mut self.shake {
            *heard = true;
        }
        self.acknowledge(now, packet, streams);
        Ok(())
    }

    /// Whether the bytes follow those that are there.
    #[inline]
    fn is_next(&self, id: Id, packet: &Packet<'_>) -> bool {
        let Some(conn) = self.table.get(id) else {
            return false;
        };
        let offset = expand(packet.header.offset, conn.recv.placed());
        let bytes = offset..offset.saturating_add(packet.body.len() as u64);
        let takes = matches!(conn.stage, Stage::Open | Stage::Opening) && !conn.recv.is_frozen();
        takes && conn.recv.place(bytes) == Place::Next
    }

    /// [P6]
    #[inline]
    fn check_acknowledgement(&self, packet: &Packet<'_>) -> Result<(), Dropped> {
        let Some(ack) = &packet.ack else {
            return Ok(());
        };
        let path = self.paths.get(usize::from(ack.path));
        let possible = path.and_then(|path| path.check(ack)).is_some();
        possible.then_some(()).ok_or(Dropped::Acknowledgement)
    }

    /// Does what an asking packet came for, or nothing at all.
    #[inline]
    fn deliver(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        placed: bool,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        match packet.header.kind {
            Kind::Ping => return Ok(()),
            Kind::Bye => {
                self.die(Why::Bye);
                self.renew();
                return Ok(());
            }
            Kind::Open => return self.hear_open(now, packet),
            _ => {}
        }
        let id = Id::from_token(packet.header.token);
        if self.table.get(id).is_none() {
            // [C8] A late one for a connection that is over.
            return self.table.was(id).then_some(()).ok_or(Dropped::Token);
        }
        match packet.header.kind {
            Kind::Data => self.hear_data(now, id, packet, placed, streams),
            Kind::Credit => self.hear_credit(now, id, packet),
            Kind::Accept => self.hear_accept(now, id, packet),
            Kind::Close => self.hear_close(now, id, packet),
            Kind::Reset => self.hear_reset(id, packet),
            _ => Err(Dropped::Kind),
        }
    }

    #[inline]
    fn hear_data(
        &mut self,
        now: Instant,
        id: Id,
        packet: &Packet<'_>,
        placed: bool,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        if conn.stage == Stage::Resetting {
            return Ok(());
        }
        if conn.stage == Stage::Expected {
            return Err(Dropped::Token);
        }
        if conn.recv.is_frozen() {
            return Err(Dropped::Frozen);
        }
        let offset = expand(packet.header.offset, conn.recv.placed());
        let end = offset
            .checked_add(packet.body.len() as u64)
            .ok_or(Dropped::Offset)?;
        let bytes = match conn.recv.place(offset..end) {
            Place::Next => offset..end,
            Place::Part(part) => part,
            Place::Known => return self.hear_room(now, id, packet),
            Place::Full => return Err(Dropped::Full),
            Place::Forbidden => return Err(Dropped::Offset),
        };
        if !placed {
            let from = (bytes.start - offset) as usize;
            let _ = streams.place(id, bytes.start, &packet.body[from..], Crc::START);
        }
        // [C5]
        let reach = conn.recv.reach(&bytes);
        if reach > conn.recv.placed() && streams.publish(id, reach).is_err() {
            conn.recv.freeze();
            self.events.push_back(Event::Frozen(id));
            return Err(Dropped::Frozen);
        }
        conn.recv.put(bytes);
        self.hear_room(now, id, packet)?;
        self.end_if_over(id);
        Ok(())
    }

    /// [K3] The credit that a packet carries.
    #[inline]
    fn hear_room(&mut self, now: Instant, id: Id, packet: &Packet<'_>) -> Result<(), Dropped> {
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

    fn hear_credit(&mut self, now: Instant, id: Id, packet: &Packet<'_>) -> Result<(), Dropped> {
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        let placed = expand(packet.header.offset, conn.send.done());
        if placed > conn.send.next() {
            return Err(Dropped::Offset);
        }
        // [K5] The answer to a question.
        if packet.header.ask && conn.stage == Stage::Open {
            conn.debts.add(Owed::Credit);
        }
        self.hear_room(now, id, packet)?;
        self.note(now, id);
        Ok(())
    }

    /// [C1] [C3]
    fn hear_open(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), Dropped> {
        let open = Open::parse(packet.body).ok_or(Dropped::Length)?;
        let known = self.names.get(&open.name).copied();
        let Some(conn) = known.and_then(|id| self.table.get_mut(id)) else {
            if self.refusals.len() < MOST_REFUSALS && !self.refusals.contains(&open.token) {
                self.refusals.push_back(open.token);
            }
            return Err(Dropped::Offset);
        };
        match conn.stage {
            Stage::Expected => {
                let id = conn.id;
                conn.peer = Some(open.token);
                self.agree(now, id, &open);
                Ok(())
            }
            // It came twice.
            _ if conn.peer == Some(open.token) => Ok(()),
            _ => Err(Dropped::Offset),
        }
    }

    /// [C3] Both ends have named their offsets.
    fn agree(&mut self, now: Instant, id: Id, open: &Open) {
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let mirrored =
            open.send_from == conn.terms.receive_from && open.receive_from == conn.terms.send_from;
        let possible = open.receive_from..=open.receive_from.saturating_add(MOST_CREDIT);
        if !mirrored || !possible.contains(&open.credit) {
            return self.reset(now, id, reason::DISAGREEMENT);
        }
        let accepted = conn.stage == Stage::Expected;
        conn.stage = Stage::Open;
        conn.send.allow(open.credit);
        if accepted {
            conn.debts.add(Owed::Accept);
        }
        self.events.push_back(Event::Open(id));
        self.note(now, id);
    }

    fn hear_accept(&mut self, now: Instant, id: Id, packet: &Packet<'_>) -> Result<(), Dropped> {
        let open = Open::parse(packet.body).ok_or(Dropped::Length)?;
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        if open.name != conn.terms.name || conn.stage == Stage::Expected {
            return Err(Dropped::Offset);
        }
        if conn.stage == Stage::Opening {
            conn.peer = Some(open.token);
            self.agree(now, id, &open);
        }
        Ok(())
    }

    /// [C7]
    fn hear_close(&mut self, now: Instant, id: Id, packet: &Packet<'_>) -> Result<(), Dropped> {
        let conn = self.table.get_mut(id).ok_or(Dropped::Token)?;
        if conn.stage == Stage::Resetting {
            return Ok(());
        }
        let end = expand(packet.header.offset, conn.recv.placed());
        if conn.stage == Stage::Expected || !conn.recv.end_at(end) {
            return Err(Dropped::Offset);
        }
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

    /// [C8]
    fn hear_reset(&mut self, id: Id, packet: &Packet<'_>) -> Result<(), Dropped> {
        let reason = packet.body.first_chunk().copied().map(u16::from_be_bytes);
        let reason = reason.ok_or(Dropped::Length)?;
        let conn = self.forget(id).ok_or(Dropped::Token)?;
        if conn.stage != Stage::Resetting {
            let score = score(&conn);
            self.events.push_back(Event::Reset { id, reason, score });
        }
        Ok(())
    }

    /// What the peer has received.
    #[inline]
    fn acknowledge(&mut self, now: Instant, packet: &Packet<'_>, streams: &mut impl Streams) {
        let Some(ack) = &packet.ack else { return };
        let number = usize::from(ack.path);
        let Some(path) = self.paths.get_mut(number) else {
            return;
        };
        let Some(largest) = path.check(ack) else {
            return;
        };
        let mut fates = core::mem::take(&mut self.fates);
        path.acknowledge(now, ack, largest, &mut fates);
        self.settle(now, number, &mut fates, streams);
        self.fates = fates;
    }

    /// Tells connections what became of their packets.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        path: usize,
        fates: &mut Fates,
        streams: &mut impl Streams,
    ) {
        for (fate, content) in fates.drain(..) {
            match (fate, content) {
                (Fate::Acknowledged, Content::Data { id, offset, length }) => {
                    let Some(conn) = self.table.get_mut(id) else {
                        continue;
                    };
                    let bytes = offset..offset + u64::from(length);
                    // [C6]
                    if let Some(done) = conn.send.acknowledge(bytes) {
                        streams.release(id, done);
                        if conn.is_over() {
                            self.close_if_over(id);
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
    }

    fn paid(&mut self, id: Id, what: Owed) {
        let Some(conn) = self.conn(id) else { return };
        match what {
            Owed::Close => {
                conn.send.close_acknowledged();
                self.close_if_over(id);
            }
            Owed::Reset => {
                self.forget(id);
            }
            Owed::Open | Owed::Accept | Owed::Credit | Owed::Question => {}
        }
    }

    /// [R3] As far as it is still needed.
    fn owe_again(&mut self, now: Instant, id: Id, what: Owed) {
        let Some(conn) = self.conn(id) else { return };
        let needed = match what {
            Owed::Open => conn.stage == Stage::Opening,
            Owed::Accept | Owed::Credit => conn.stage == Stage::Open,
            Owed::Reset => conn.stage == Stage::Resetting,
            // Its own time brings it again.
            Owed::Question => false,
            Owed::Close => {
                conn.send.close_lost();
                false
            }
        };
        if needed {
            conn.debts.add(what);
        }
        self.note(now, id);
    }
}

fn check(packet: &Packet<'_>, crc: Crc) -> Result<(), Dropped> {
    let fits = crc.value() == packet.crc;
    fits.then_some(()).ok_or(Dropped::Crc)
}

/// [W2] A packet from somebody whose incarnation is not known yet.
fn check_stranger(arrival: &Arrival<'_>, packet: &Packet<'_>) -> Result<(), Dropped> {
    let seal = Seal::stranger(&arrival.addresses);
    check(packet, seal.head(packet.head()).over(packet.body))
}
