//! ACK: every second packet in bulk, and so little that it is read in one piece.

use super::packet::{ACK, MARKS, PATH};
use super::{Ack, HEADER, Kind, VERSION};

/// An ACK. Nothing but its path, its tag and the acknowledgement are not zero.
#[derive(Clone, Copy, Debug)]
pub struct Bare<'a> {
    pub path: u8,
    pub tag: u32,
    /// The CRC that it claims to have.
    pub crc: u32,
    pub ack: Ack<'a>,
}

impl<'a> Bare<'a> {
    /// `[W1]` `[W7]` `None` if it is another packet, or malformed: `Packet::parse` says why.
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Option<Bare<'a>> {
        let (fixed, rest) = datagram.split_first_chunk::<HEADER>()?;
        if fixed[0] != VERSION << 4 | Kind::Ack as u8 {
            return None;
        }
        let flags = fixed[1];
        let fields = fixed.as_chunks::<4>().0;
        let field = |at: usize| u32::from_be_bytes(fields[at]);
        // Length, number, token, offset and credit.
        let others = u32::from(fixed[2]) | u32::from(fixed[3]) | field(2);
        let others = others | field(4) | field(5) | field(6) | field(7);
        if flags & !(MARKS | PATH) != ACK || others != 0 {
            return None;
        }
        let (ack, rest) = Ack::split(rest, flags & MARKS != 0)?;
        let bare = Bare {
            path: flags & PATH,
            tag: field(1),
            crc: field(3),
            ack,
        };
        (rest.is_empty() && ack.is_sound()).then_some(bare)
    }
}
