//! What arrives.

use super::conn::{Place, Stage};
use super::counters::Dropped;
use super::event::Why;
use super::handshake::Shake;
use super::received::Known;
use super::settle::Acknowledged;
use super::streams::Streams;
use super::window::Window;
use super::{Id, Link};
use crate::crc32c::Crc;
use crate::time::Instant;
use crate::wire::frame::Ecn;
use crate::wire::number::expand;
use crate::wire::{Addresses, Kind, Packet};

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
    pub(super) fn way(&self, arrival: &Arrival<'_>) -> Result<u8, Dropped> {
        let ways = self.config.ways.iter();
        ways.zip(0..)
            .find_map(|(way, number)| (way.incoming == arrival.addresses).then_some(number))
            .ok_or(Dropped::Way)
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
        let acknowledged = self.check_acknowledgement(packet)?;
        let mut taken = Ok(());
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
            taken = self.deliver(now, packet, next, streams);
            match taken {
                // [P7] BYE leaves no path.
                Ok(()) => {
                    if let Some(path) = self.paths.get_mut(path_number) {
                        path.received.note(now, number, header.ask, arrival.ecn);
                    }
                }
                // Nothing is wrong with it; what it says about our packets counts. [R7] The peer hears
                // that we are there.
                Err(Dropped::Full | Dropped::Frozen | Dropped::Ended) => {
                    self.paths[path_number].received.again(now);
                }
                Err(why) => return Err(why),
            }
        }
        if let Shake::Up { heard, .. } = &mut self.shake {
            *heard = true;
        }
        if let Some(acknowledged) = acknowledged {
            self.acknowledge(now, &acknowledged, streams);
        }
        taken
    }

    /// Whether the bytes follow those that are there.
    #[inline]
    fn is_next(&self, id: Id, packet: &Packet<'_>) -> bool {
        let Some(conn) = self.table.get(id) else {
            return false;
        };
        let offset = expand(packet.header.offset, conn.recv.placed());
        let bytes = offset..offset.saturating_add(packet.body.len() as u64);
        let takes = matches!(conn.stage, Stage::Open | Stage::Opening);
        takes && conn.recv.place(bytes) == Place::Next
    }

    /// [P6]
    #[inline]
    fn check_acknowledgement<'a>(
        &self,
        packet: &Packet<'a>,
    ) -> Result<Option<Acknowledged<'a>>, Dropped> {
        let Some(ack) = packet.ack else {
            return Ok(None);
        };
        let path = self.paths.get(usize::from(ack.path));
        let largest = path.and_then(|path| path.check(&ack));
        let largest = largest.ok_or(Dropped::Acknowledgement)?;
        Ok(Some(Acknowledged { ack, largest }))
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
        match self.table.get(id) {
            // [C8] A late one for a connection that is over.
            None => return self.table.was(id).then_some(()).ok_or(Dropped::Token),
            // The peer has not been told its token yet.
            Some(conn) if conn.stage == Stage::Expected => return Err(Dropped::Token),
            Some(_) => {}
        }
        self.follow(now, id, packet.header.path);
        match packet.header.kind {
            Kind::Data => self.hear_data(now, id, packet, placed, streams),
            Kind::Credit => self.hear_credit(now, id, packet),
            Kind::Accept => self.hear_accept(now, id, packet),
            Kind::Close => self.hear_close(now, id, packet, streams),
            Kind::Reset => self.hear_reset(id, packet),
            _ => Err(Dropped::Kind),
        }
    }
}

pub(super) fn check(packet: &Packet<'_>, crc: Crc) -> Result<(), Dropped> {
    let fits = crc.value() == packet.crc;
    fits.then_some(()).ok_or(Dropped::Crc)
}
