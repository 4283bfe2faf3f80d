//! What leaves.

use core::ops::Range;

use super::conn::Conn;
use super::ledger::Content;
use super::path::Path;
use super::streams::Streams;
use super::window::Window;
use super::{Id, Link};
use crate::crc32c::Crc;
use crate::time::Instant;
use crate::wire::frame::Ecn;
use crate::wire::number::low;
use crate::wire::{HEADER, Header, Kind, Seal, ack, packet};

/// What `transmit` has to have room for.
pub const SHORTEST: usize = super::mtu::BASE;

/// A packet that is ready to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its bytes.
    pub length: usize,
    /// The way that it goes.
    pub way: usize,
    pub ecn: Ecn,
}

/// Bytes of a connection that are to go.
pub(super) struct Piece {
    pub id: Id,
    pub bytes: Range<u64>,
    /// Their acknowledgement is wanted at once.
    pub ask: bool,
}

impl Piece {
    fn new(id: Id, bytes: Range<u64>) -> Piece {
        let ask = false;
        Piece { id, bytes, ask }
    }
}

impl<W: Window + Clone> Link<W> {
    /// `[S3]` Writes the next packet that has to go; `None` if there is none before the deadline. There
    /// is room for all that the port can send, or at least for `SHORTEST` bytes.
    pub fn transmit(
        &mut self,
        now: Instant,
        streams: &mut impl Streams,
        out: &mut [u8],
    ) -> Option<Departure> {
        // Every packet fits but a trial of a size.
        if out.len() < SHORTEST {
            return None;
        }
        self.on_time(now, streams);
        let departure = self
            .say_welcome(out)
            .or_else(|| self.say_hello(now, out))
            .or_else(|| self.transmit_on_paths(now, streams, out))?;
        self.counters.packets_sent += 1;
        self.counters.bytes_sent += departure.length as u64;
        Some(departure)
    }

    /// Paths take turns.
    fn transmit_on_paths(
        &mut self,
        now: Instant,
        streams: &mut impl Streams,
        out: &mut [u8],
    ) -> Option<Departure> {
        let count = self.paths.len();
        for turn in self.turn..self.turn + count {
            let number = if turn < count { turn } else { turn % count };
            if let Some(length) = self.transmit_on(number, now, streams, out) {
                let ecn = self
                    .paths
                    .get(number)
                    .map_or(Ecn::NotCapable, |path| path.ecn.mark());
                self.turn = if number + 1 == count { 0 } else { number + 1 };
                return Some(Departure {
                    length,
                    way: number,
                    ecn,
                });
            }
        }
        None
    }

    /// `[S1]`
    fn transmit_on(
        &mut self,
        number: usize,
        now: Instant,
        streams: &mut impl Streams,
        out: &mut [u8],
    ) -> Option<usize> {
        let path = &mut self.paths[number];
        path.paced = None;
        if self.bye {
            return self.say_bye(number, out);
        }
        // Mostly nothing.
        let owes = !path.is_plain() || !self.refusals.is_empty() || self.owes_confirm();
        let owed = match owes {
            true => self.transmit_owed(number, now, streams, out),
            false => None,
        };
        owed.or_else(|| self.send_fresh(number, now, streams, out))
            .or_else(|| self.acknowledge_only(number, now, out))
    }

    /// What goes before new bytes.
    fn transmit_owed(
        &mut self,
        number: usize,
        now: Instant,
        streams: &mut impl Streams,
        out: &mut [u8],
    ) -> Option<usize> {
        self.say_confirm(number, out)
            .or_else(|| self.probe(number, now, streams, out))
            .or_else(|| self.ask_path(number, now, out))
            .or_else(|| self.pay(number, now, out))
            .or_else(|| self.refuse(number, now, out))
            .or_else(|| self.try_size(number, now, out))
            .or_else(|| self.send_lost(number, now, streams, out))
    }

    /// `[R3]`
    fn send_lost(
        &mut self,
        number: usize,
        now: Instant,
        streams: &mut impl Streams,
        out: &mut [u8],
    ) -> Option<usize> {
        loop {
            let id = self.paths[number].schedule.first_lost()?;
            let bytes = self.served(number, id).filter(|conn| conn.can_send());
            let Some(bytes) = bytes.and_then(|conn| conn.send.again()) else {
                self.paths[number].schedule.lost_done(false);
                if let Some(conn) = self.served_mut(number, id) {
                    conn.queued.lost = false;
                }
                continue;
            };
            if !self.has_room(number, now) {
                return None;
            }
            let length = self.send_data(number, now, Piece::new(id, bytes), streams, out)?;
            self.paths[number].schedule.lost_done(true);
            return Some(length);
        }
    }

    /// `[S2]`
    #[inline]
    fn send_fresh(
        &mut self,
        number: usize,
        now: Instant,
        streams: &mut impl Streams,
        out: &mut [u8],
    ) -> Option<usize> {
        loop {
            let id = self.paths[number].schedule.first_data()?;
            let bytes = self.served(number, id).filter(|conn| conn.can_send());
            let bytes = bytes.map_or(0..0, |conn| conn.send.fresh());
            if bytes.is_empty() {
                self.paths[number].schedule.data_left();
                if let Some(conn) = self.served_mut(number, id) {
                    conn.queued.data = false;
                    self.note(now, id);
                }
                continue;
            }
            if !self.has_room(number, now) {
                return None;
            }
            let length = self.send_data(number, now, Piece::new(id, bytes), streams, out)?;
            if let Some(conn) = self.table.get_mut(id) {
                self.paths[number].schedule.data_done(conn, length as u64);
                if conn.send.may_close() || conn.send.is_blocked() {
                    self.note(now, id);
                }
            }
            return Some(length);
        }
    }

    /// A connection whose turn it is on a path, unless it has gone to another.
    #[inline]
    pub(super) fn served(&self, number: usize, id: Id) -> Option<&Conn> {
        let conn = self.table.get(id)?;
        (usize::from(conn.path) == number).then_some(conn)
    }

    pub(super) fn served_mut(&mut self, number: usize, id: Id) -> Option<&mut Conn> {
        let conn = self.table.get_mut(id)?;
        (usize::from(conn.path) == number).then_some(conn)
    }

    fn has_room(&mut self, number: usize, now: Instant) -> bool {
        let path = &mut self.paths[number];
        let size = path.mtu.size();
        path.has_room(now, size, self.config.most_packets)
    }

    /// One packet with the first of these bytes.
    #[inline]
    pub(super) fn send_data(
        &mut self,
        number: usize,
        now: Instant,
        piece: Piece,
        streams: &mut impl Streams,
        out: &mut [u8],
    ) -> Option<usize> {
        let Piece { id, bytes, ask } = piece;
        let tag = self.shake.peer()?.tag;
        let conn = self.table.get_mut(id)?;
        let header = Header {
            kind: Kind::Data,
            ask,
            path: number as u8,
            tag,
            number: 0,
            token: conn.peer?,
            offset: low(bytes.start),
            credit: low(conn.recv.tell()),
        };
        let path = &mut self.paths[number];
        let largest = path.mtu.size().min(out.len());
        let out = &mut out[..largest];
        let written = report(now, number, &mut self.paths, out);
        let path = &mut self.paths[number];
        let head = HEADER + written.map_or(0, |written| written.length);
        let room = largest.checked_sub(head)? as u64;
        let length = (bytes.end - bytes.start).min(room) as usize;
        let sent = bytes.start..bytes.start + length as u64;
        let (top, body) = out.split_at_mut(head);
        let header = Header {
            number: low(path.ledger().next_number()),
            ..header
        };
        header.emit(top.first_chunk_mut()?, written, length);
        let crc = path.outgoing.head(top);
        let crc = streams.fetch(id, bytes.start, &mut body[..length], crc);
        packet::seal(out, crc);
        let total = head + length;
        let content = Content::Data {
            id,
            offset: sent.start,
            length: length as u32,
        };
        path.sent(now, total, content, self.sleepy);
        if !conn.send.sent(sent) {
            self.counters.bytes_again += length as u64;
        }
        Some(total)
    }

    /// `[M1]` Once there is a round trip to judge it by.
    fn try_size(&mut self, number: usize, now: Instant, out: &mut [u8]) -> Option<usize> {
        let tag = self.shake.peer()?.tag;
        let path = &mut self.paths[number];
        if !path.rtt().is_known() || path.is_left() {
            return None;
        }
        let size = path.mtu.next_trial(now, out.len())?;
        let header = Header {
            tag,
            ask: true,
            ..Header::of(Kind::Ping)
        };
        let content = Content::Ping { tried: Some(size) };
        self.send(number, now, header, Some(content), out, |out, head| {
            let padding = size - head;
            out.get_mut(..padding)?.fill(0);
            Some(padding)
        })
    }

    /// `[P4]` Nothing was there to ride on.
    fn acknowledge_only(&mut self, number: usize, now: Instant, out: &mut [u8]) -> Option<usize> {
        let tag = self.shake.peer()?.tag;
        let due = self.paths[number].received.due()?;
        if due > now {
            return None;
        }
        let header = Header {
            tag,
            ..Header::of(Kind::Ack)
        };
        self.send(number, now, header, None, out, |_, _| Some(0))
    }

    /// Writes a packet whose body `fill` puts in place, given the room for it and the bytes before it.
    pub(super) fn send(
        &mut self,
        number: usize,
        now: Instant,
        header: Header,
        content: Option<Content>,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8], usize) -> Option<usize>,
    ) -> Option<usize> {
        let written = report(now, number, &mut self.paths, out);
        let path = self.paths.get_mut(number)?;
        let head = HEADER + written.map_or(0, |written| written.length);
        let (top, body) = out.split_at_mut_checked(head)?;
        let length = fill(body, head)?;
        let header = Header {
            path: number as u8,
            number: match content {
                Some(_) => low(path.ledger().next_number()),
                None => 0,
            },
            ..header
        };
        header.emit(top.first_chunk_mut()?, written, length);
        let crc = path.outgoing.head(top).over(&body[..length]);
        packet::seal(out, crc);
        if let Some(content) = content {
            path.sent(now, head + length, content, self.sleepy);
        }
        Some(head + length)
    }
}

/// Lets acknowledgements ride on a packet: first those of its own path, then others that are due.
#[inline]
fn report<W>(
    now: Instant,
    number: usize,
    paths: &mut [Path<W>],
    out: &mut [u8],
) -> Option<ack::Written> {
    let room = out.get_mut(HEADER..)?;
    let due = |path: &Path<W>| path.received.due().is_some();
    let whose = if due(&paths[number]) {
        number
    } else {
        paths.iter().position(due)?
    };
    paths[whose].received.report(now, whose as u8, room)
}

/// A whole packet at once.
pub(super) fn write(
    out: &mut [u8],
    header: &Header,
    seal: Seal,
    ack: Option<ack::Written>,
    body: &[u8],
) -> Option<usize> {
    let length = HEADER + body.len();
    let out = out.get_mut(..length)?;
    header.emit(out.first_chunk_mut()?, ack, body.len());
    out[HEADER..].copy_from_slice(body);
    let crc: Crc = seal.head(&out[..HEADER]).over(body);
    packet::seal(out, crc);
    Some(length)
}
