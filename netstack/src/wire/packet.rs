//! A packet: header, acknowledgement block, body.

use super::ack::{self, Ack};
use super::{HEADER, PATHS, VERSION, body};
use crate::crc32c::Crc;

/// What a packet is for. The table is in docs/link.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Hello,
    Welcome,
    Confirm,
    Ack,
    Data,
    Credit,
    Open,
    Accept,
    Close,
    Reset,
    Ping,
    Bye,
}

impl Kind {
    pub const ALL: [Kind; 12] = [
        Kind::Hello,
        Kind::Welcome,
        Kind::Confirm,
        Kind::Ack,
        Kind::Data,
        Kind::Credit,
        Kind::Open,
        Kind::Accept,
        Kind::Close,
        Kind::Reset,
        Kind::Ping,
        Kind::Bye,
    ];

    #[inline]
    fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).copied()
    }

    /// Whether the receiver acknowledges it.
    #[inline]
    pub fn is_asking(self) -> bool {
        !matches!(
            self,
            Kind::Hello | Kind::Welcome | Kind::Confirm | Kind::Ack
        )
    }

    /// Whether it belongs to a connection that the receiver knows by a token.
    #[inline]
    pub fn has_token(self) -> bool {
        matches!(
            self,
            Kind::Data | Kind::Credit | Kind::Accept | Kind::Close | Kind::Reset
        )
    }

    fn allows_body(self, length: usize) -> bool {
        match self {
            Kind::Data => length > 0,
            Kind::Hello => length == body::HELLO,
            Kind::Welcome | Kind::Confirm => length == body::WELCOME,
            Kind::Open | Kind::Accept => length == body::OPEN,
            Kind::Reset => length == body::RESET,
            Kind::Ack | Kind::Credit | Kind::Close | Kind::Bye => length == 0,
            Kind::Ping => true,
        }
    }
}

pub(super) const ACK: u8 = 0x80;
const ASK: u8 = 0x40;
pub(super) const MARKS: u8 = 0x20;
pub(super) const PATH: u8 = PATHS as u8 - 1;

/// What every packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// Wants its acknowledgement at once.
    pub ask: bool,
    /// Whose number it has.
    pub path: u8,
    pub tag: u32,
    pub number: u32,
    pub token: u64,
    pub offset: u32,
    pub credit: u32,
}

impl Header {
    /// One that names nothing but its kind.
    pub fn of(kind: Kind) -> Header {
        Header {
            kind,
            ask: false,
            path: 0,
            tag: 0,
            number: 0,
            token: 0,
            offset: 0,
            credit: 0,
        }
    }
}

/// `[W1]` Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    Length,
    Version,
    Kind,
    Flags,
    /// A field has a value where the kind has none.
    Field,
}

/// A well-formed packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub header: Header,
    pub ack: Option<Ack<'a>>,
    pub body: &'a [u8],
    /// The CRC that it claims to have.
    pub crc: u32,
    head: &'a [u8],
}

impl<'a> Packet<'a> {
    /// `[W7]`
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let Some((fixed, rest)) = datagram.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Length);
        };
        let [first, flags, ..] = *fixed;
        if first >> 4 != VERSION {
            return Err(Malformed::Version);
        }
        let kind = Kind::from_number(first & 15).ok_or(Malformed::Kind)?;
        if flags & !(ACK | ASK | MARKS | PATH) != 0 || flags & (ACK | MARKS) == MARKS {
            return Err(Malformed::Flags);
        }
        let header = Header {
            kind,
            ask: flags & ASK != 0,
            path: flags & PATH,
            tag: u32_at(fixed, 4),
            number: u32_at(fixed, 8),
            token: u64_at(fixed, 16),
            offset: u32_at(fixed, 24),
            credit: u32_at(fixed, 28),
        };
        let (mut ack, mut body) = (None, rest);
        if flags & ACK != 0 {
            let split = Ack::split(rest, flags & MARKS != 0);
            let (block, after) = split.ok_or(Malformed::Length)?;
            if !block.is_sound() {
                return Err(Malformed::Field);
            }
            (ack, body) = (Some(block), after);
        }
        let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if body.len() != length {
            return Err(Malformed::Length);
        }
        header.check(ack.is_some(), length)?;
        Ok(Packet {
            header,
            ack,
            body,
            crc: u32_at(fixed, 12),
            head: &datagram[..datagram.len() - length],
        })
    }

    /// All before the body, as the CRC sees it: `Seal::head`.
    #[inline]
    pub fn head(&self) -> &'a [u8] {
        self.head
    }
}

impl Header {
    /// Whether the kind can have such a body, and has all that is there.
    #[inline]
    fn check(&self, has_ack: bool, body: usize) -> Result<(), Malformed> {
        // It has all that there is.
        match self.kind == Kind::Data && body > 0 {
            true => Ok(()),
            false => self.check_any(has_ack, body),
        }
    }

    fn check_any(&self, has_ack: bool, body: usize) -> Result<(), Malformed> {
        if !self.kind.allows_body(body) {
            return Err(Malformed::Length);
        }
        self.fits(has_ack).then_some(()).ok_or(Malformed::Field)
    }

    /// It has no number, and names no connection.
    #[inline]
    fn is_bare(&self) -> bool {
        let number = u64::from(self.number) | u64::from(self.ask);
        number | self.token | u64::from(self.offset) | u64::from(self.credit) == 0
    }

    /// Fields that the kind does not have are zero, and it has an acknowledgement only if it may.
    fn fits(&self, has_ack: bool) -> bool {
        let no_offsets = self.offset == 0 && self.credit == 0;
        let no_token = self.token == 0 && no_offsets;
        match self.kind {
            Kind::Data | Kind::Credit | Kind::Close | Kind::Reset => true,
            // It acknowledges something.
            Kind::Ack => self.is_bare() && has_ack,
            Kind::Accept => no_offsets,
            Kind::Open | Kind::Ping | Kind::Bye => no_token,
            // Before a link is up there is nothing to acknowledge.
            Kind::Welcome | Kind::Confirm => self.is_bare() && !has_ack,
            Kind::Hello => self.is_bare() && !has_ack && self.tag == 0,
        }
    }

    /// Writes it with an acknowledgement block already in its place behind it (`ack::emit`), the CRC
    /// still zero.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER], ack: Option<ack::Written>, body: usize) {
        let flags = match ack {
            None => 0,
            Some(ack::Written { marks: false, .. }) => ACK,
            Some(ack::Written { marks: true, .. }) => ACK | MARKS,
        };
        out[0] = VERSION << 4 | self.kind as u8;
        out[1] = flags | if self.ask { ASK } else { 0 } | self.path & PATH;
        out[2..4].copy_from_slice(&(body as u16).to_be_bytes());
        out[4..8].copy_from_slice(&self.tag.to_be_bytes());
        out[8..12].copy_from_slice(&self.number.to_be_bytes());
        out[12..16].fill(0);
        out[16..24].copy_from_slice(&self.token.to_be_bytes());
        out[24..28].copy_from_slice(&self.offset.to_be_bytes());
        out[28..32].copy_from_slice(&self.credit.to_be_bytes());
    }
}

/// How long the packet is that these bytes begin with, as it says itself. Whether it is one shows when it is read.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let (fixed, rest) = bytes.split_first_chunk::<HEADER>()?;
    if fixed[0] >> 4 != VERSION {
        return None;
    }
    let flags = fixed[1];
    let block = match flags & ACK != 0 {
        true => rest.len() - Ack::split(rest, flags & MARKS != 0)?.1.len(),
        false => 0,
    };
    let body = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    Some(HEADER + block + body)
}

/// The last step: the CRC of a packet that is complete.
#[inline]
pub fn seal(out: &mut [u8], crc: Crc) {
    if let Some(field) = out.get_mut(12..16) {
        field.copy_from_slice(&crc.value().to_be_bytes());
    }
}

#[inline]
fn u32_at(bytes: &[u8; HEADER], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(field)
}

#[inline]
fn u64_at(bytes: &[u8; HEADER], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(field)
}
