//! Finding each other, and parting: what the handshake's packets and BYE do to a link.

use super::Link;
use super::counters::Dropped;
use super::event::{Event, Why};
use super::handshake::{self, Shake};
use super::path::Path;
use super::receive::check;
use super::transmit::{Departure, write};
use super::window::Window;
use crate::time::Instant;
use crate::wire::body::{Hello, Welcome};
use crate::wire::frame::{Arrival, Ecn};
use crate::wire::number::low;
use crate::wire::{Header, Kind, Packet, Seal};

impl<W: Window + Clone> Link<W> {
    /// `[H2]`
    pub(super) fn hear_hello(
        &mut self,
        arrival: &Arrival<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        let way = self.way(arrival)?;
        check_stranger(arrival, packet)?;
        let hello = Hello::parse(packet.body).ok_or(Dropped::Length)?;
        if hello.incarnation == self.config.identity.incarnation {
            return Err(Dropped::Handshake);
        }
        let welcome = handshake::welcome(&self.config.identity, self.links, &hello);
        // [X3] One answer, for the last that has asked.
        self.answer = Some((way, hello.tag, welcome));
        Ok(())
    }

    /// `[H3]`
    pub(super) fn hear_welcome(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        let way = self.way(arrival)?;
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
        // [R8] That way works.
        self.turn = way.into();
        Ok(())
    }

    /// `[H4]`
    pub(super) fn hear_confirm(
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
        if confirm.you != identity.incarnation {
            return Err(Dropped::Handshake);
        }
        if let Shake::Up { peer: known, heard } = &mut self.shake {
            // [H5]
            if *known == peer {
                *heard = true;
                return Ok(());
            }
        }
        if confirm.challenge != handshake::challenge(&identity, self.links, peer.incarnation) {
            return Err(Dropped::Handshake);
        }
        if self.is_up() {
            self.die(Why::Restarted);
        }
        self.come_up(now, peer, true);
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
        self.links += 1;
        self.events.push_back(Event::Up);
        for id in self.table.ids() {
            self.note(now, id);
        }
    }

    /// `[H2]`
    pub(super) fn say_welcome(&mut self, out: &mut [u8]) -> Option<Departure> {
        let (way, tag, welcome) = self.answer.take()?;
        let header = Header {
            tag,
            ..Header::of(Kind::Welcome)
        };
        self.say_as_stranger(way.into(), &header, &welcome.emit(), out)
    }

    /// `[H1]`
    pub(super) fn say_hello(&mut self, now: Instant, out: &mut [u8]) -> Option<Departure> {
        if !self.shake.says_hello(now) {
            return None;
        }
        let hello = Hello {
            incarnation: self.config.identity.incarnation,
            tag: self.config.identity.tag,
        };
        // [R8] Each time another way: the first may be the one that is cut.
        let way = self.turn % self.config.ways.len().max(1);
        self.turn = way + 1;
        self.say_as_stranger(way, &Header::of(Kind::Hello), &hello.emit(), out)
    }

    fn say_as_stranger(
        &self,
        way: usize,
        header: &Header,
        body: &[u8],
        out: &mut [u8],
    ) -> Option<Departure> {
        let seal = Seal::stranger(&self.config.ways.get(way)?.outgoing);
        let length = write(out, header, seal, None, body)?;
        let ecn = Ecn::NotCapable;
        Some(Departure { length, way, ecn })
    }

    /// `[H6]` Not repeated: a peer that does not hear it finds out by itself.
    pub(super) fn say_bye(&mut self, number: usize, out: &mut [u8]) -> Option<usize> {
        let peer = self.shake.peer()?;
        let path = self.paths.get(number)?;
        let header = Header {
            path: number as u8,
            tag: peer.tag,
            number: low(path.ledger().next_number()),
            ..Header::of(Kind::Bye)
        };
        let length = write(out, &header, path.outgoing, None, &[]);
        self.die(Why::Bye);
        self.renew();
        length
    }

    /// `[H3]`
    #[inline]
    pub(super) fn owes_confirm(&self) -> bool {
        self.confirm_owed && matches!(self.shake, Shake::Up { heard: false, .. })
    }

    /// `[H3]`
    pub(super) fn say_confirm(&mut self, number: usize, out: &mut [u8]) -> Option<usize> {
        let Shake::Up { peer, heard: false } = self.shake else {
            return None;
        };
        if !core::mem::take(&mut self.confirm_owed) {
            return None;
        }
        let confirm = self.confirm?;
        let header = Header {
            tag: peer.tag,
            ..Header::of(Kind::Confirm)
        };
        write(
            out,
            &header,
            self.paths[number].outgoing,
            None,
            &confirm.emit(),
        )
    }
}

/// `[W2]` A packet from somebody whose incarnation is not known yet.
fn check_stranger(arrival: &Arrival<'_>, packet: &Packet<'_>) -> Result<(), Dropped> {
    let seal = Seal::stranger(&arrival.addresses);
    check(packet, seal.head(packet.head()).over(packet.body))
}
