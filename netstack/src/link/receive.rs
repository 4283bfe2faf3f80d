//! What arrives.

use super::conn::ConnStage;
use super::counters::Dropped;
use super::event::Why;
use super::handshake::Shake;
use super::path::Acknowledged;
use super::received::Known;
use super::streams::Streams;
use super::window::Window;
use super::{Id, Link};
use crate::crc32c::Crc;
use crate::time::Instant;
use crate::wire::frame::{Arrival, Ecn};
use crate::wire::number::expand;
use crate::wire::{Ack, Bare, Header, Kind, Packet, Seal};

impl<W: Window + Clone> Link<W> {
    /// `[X1]` Takes in a datagram. One that is not right has changed nothing, and is counted.
    pub fn receive(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let taken = match &Bare::parse(arrival.payload) {
            Some(bare) => self.take_bare(now, arrival, bare, streams),
            None => match &Packet::parse(arrival.payload) {
                Err(malformed) => Err((*malformed).into()),
                Ok(packet) => match packet.header.kind {
                    Kind::Hello => self.hear_hello(arrival, packet),
                    Kind::Welcome => self.hear_welcome(now, arrival, packet),
                    Kind::Confirm => self.hear_confirm(now, arrival, packet),
                    _ => self.take(now, arrival, packet, streams),
                },
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

    /// What a packet of a link that is up begins its checksum with, if it came the way that it says.
    #[inline(always)]
    fn seal(&self, arrival: &Arrival<'_>, path: u8, tag: u32) -> Result<Seal, Dropped> {
        if tag != self.config.identity.tag || !self.is_up() {
            return Err(Dropped::Tag);
        }
        let path = self.paths.get(usize::from(path));
        let path = path.filter(|path| path.way.incoming == arrival.addresses);
        path.map(|path| path.incoming).ok_or(Dropped::Way)
    }

    /// One that only acknowledges.
    #[inline(always)]
    fn take_bare(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        bare: &Bare<'_>,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let seal = self.seal(arrival, bare.path, bare.tag)?;
        if seal.head(arrival.payload).value() != bare.crc {
            return Err(Dropped::Crc);
        }
        let acknowledged = self.check_acknowledgement(&bare.ack)?;
        self.finish(now, Some(acknowledged), streams);
        Ok(())
    }

    /// Any other packet of a link that is up.
    #[inline]
    fn take(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        packet: &Packet<'_>,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        let Header { path, tag, .. } = packet.header;
        let crc = self.seal(arrival, path, tag)?.head(packet.head());
        match self.take_next(now, arrival.ecn, packet, crc, streams) {
            Some(()) => Ok(()),
            None => self.take_any(now, arrival.ecn, packet, crc, streams),
        }
    }

    /// One that is to be acknowledged.
    fn take_any(
        &mut self,
        now: Instant,
        ecn: Ecn,
        packet: &Packet<'_>,
        crc: Crc,
        streams: &mut impl Streams,
    ) -> Result<(), Dropped> {
        check(packet, crc.over(packet.body))?;
        let acknowledged = match &packet.ack {
            Some(ack) => Some(self.check_acknowledgement(ack)?),
            None => None,
        };
        let path = usize::from(packet.header.path);
        let received = &mut self.paths[path].received;
        let number = expand(packet.header.number, received.expected());
        match received.knows(number) {
            Known::New => {}
            // [P2]
            Known::Again => {
                received.again(now);
                return Err(Dropped::Again);
            }
            Known::TooOld => return Err(Dropped::Again),
        }
        let taken = self.deliver(now, packet, streams);
        // BYE leaves none.
        let received = self.paths.get_mut(path).map(|path| &mut path.received);
        match (taken, received) {
            // [P7]
            (Ok(()), Some(received)) => received.note(now, number, packet.header.ask, ecn),
            // Nothing is wrong with it; what it says about our packets counts. [R7] The peer hears
            // that we are there.
            (Err(Dropped::Full | Dropped::Frozen | Dropped::Ended), Some(received)) => {
                received.again(now);
            }
            (Err(why), _) => return Err(why),
            (Ok(()), None) => {}
        }
        self.finish(now, acknowledged, streams);
        taken
    }

    /// What a packet says about us.
    #[inline]
    pub(super) fn finish(
        &mut self,
        now: Instant,
        acknowledged: Option<Acknowledged<'_>>,
        streams: &mut impl Streams,
    ) {
        if let Shake::Up { heard, .. } = &mut self.shake {
            *heard = true;
        }
        if let Some(acknowledged) = acknowledged {
            self.acknowledge(now, &acknowledged, streams);
        }
    }

    /// `[P6]`
    #[inline(always)]
    pub(super) fn check_acknowledgement<'a>(
        &self,
        ack: &'a Ack<'a>,
    ) -> Result<Acknowledged<'a>, Dropped> {
        let path = self.paths.get(usize::from(ack.path()));
        let acknowledged = path.and_then(|path| path.check(ack));
        acknowledged.ok_or(Dropped::Acknowledgement)
    }

    /// Does what an asking packet came for, or nothing at all.
    fn deliver(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
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
            Some(conn) if conn.stage == ConnStage::Expected => return Err(Dropped::Token),
            Some(_) => {}
        }
        self.follow(now, id, packet.header.path);
        match packet.header.kind {
            Kind::Data => self.hear_data(now, id, packet, streams),
            Kind::Credit => self.hear_credit(now, id, packet),
            Kind::Accept => self.hear_accept(now, id, packet),
            Kind::Close => self.hear_close(now, id, packet, streams),
            Kind::Reset => self.hear_reset(id, packet),
            _ => Err(Dropped::Kind),
        }
    }
}

#[inline]
pub(super) fn check(packet: &Packet<'_>, crc: Crc) -> Result<(), Dropped> {
    let fits = crc.value() == packet.crc;
    fits.then_some(()).ok_or(Dropped::Crc)
}
