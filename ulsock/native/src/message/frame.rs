//! The format of what a pair of endpoints says on its stream: a greeting, then frames, each with a header of eight bytes.
//! Whatever comes from the other end is checked here before anybody acts on it.

use super::credit::{Class, Unit};
use super::error::Nonsense;

pub const HEADER: usize = 8;
pub const GREETING: usize = 16;
/// Bytes that one frame carries at most.
pub const MOST_CARRIED: usize = 64 << 10;

const MAGIC: [u8; 8] = *b"ulsock-m";
const VERSION: u16 = 1;

const DATA: u8 = 1;
const CREDIT: u8 = 2;
const REFUSED: u8 = 3;
const ABORTED: u8 = 4;
const KIND: u8 = 0x0f;
const FIRST: u8 = 0x10;
const LAST: u8 = 0x20;
const REPLY: u8 = 0x40;
const UNUSED: u8 = 0x80;
/// Of credit.
const MESSAGES: u8 = 0x10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Is followed by `len` bytes of a message.
    Data(Data),
    /// The other end may send so many bytes, or messages, more.
    Credit {
        class: Class,
        unit: Unit,
        count: u32,
    },
    /// Nobody handles such messages here.
    Refused { handler: u16 },
    /// The rest of this message does not come.
    Aborted { slot: u16 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub len: usize,
    /// Tells messages apart that are under way at the same time. One that is whole in its frame has none.
    pub slot: u16,
    /// Begins a message for this handler.
    pub first: Option<u16>,
    pub last: bool,
    pub class: Class,
}

impl Frame {
    #[inline]
    pub fn encode(self) -> [u8; HEADER] {
        let (kind, len, word) = match self {
            Frame::Data(data) => (
                DATA | flag(data.first.is_some(), FIRST)
                    | flag(data.last, LAST)
                    | flag(data.class == Class::Reply, REPLY),
                data.len,
                u32::from(data.slot) << 16 | u32::from(data.first.unwrap_or(0)),
            ),
            Frame::Credit { class, unit, count } => {
                let kind = CREDIT | flag(class == Class::Reply, REPLY);
                (kind | flag(unit == Unit::Messages, MESSAGES), 0, count)
            }
            Frame::Refused { handler } => (REFUSED, 0, u32::from(handler)),
            Frame::Aborted { slot } => (ABORTED, 0, u32::from(slot) << 16),
        };
        debug_assert!(len <= MOST_CARRIED);
        let word = u64::from(word) << 32 | u64::from(kind) << 24 | len as u64;
        word.to_le_bytes()
    }

    #[inline]
    pub fn decode(header: [u8; HEADER]) -> Result<Frame, Nonsense> {
        let word = u64::from_le_bytes(header);
        let (len, kind) = ((word & 0xff_ffff) as usize, (word >> 24) as u8);
        let (value, slot, low) = (
            (word >> 32) as u32,
            (word >> 48) as u16,
            (word >> 32) as u16,
        );
        if kind & (KIND | UNUSED) == DATA && len <= MOST_CARRIED {
            let first = (kind & FIRST != 0).then_some(low);
            if first.is_some() || low == 0 {
                return Ok(Frame::Data(Data {
                    len,
                    slot,
                    first,
                    last: kind & LAST != 0,
                    class: class(kind),
                }));
            }
        }
        let frame = match kind & KIND {
            CREDIT => Frame::Credit {
                class: class(kind),
                unit: match kind & MESSAGES {
                    0 => Unit::Bytes,
                    _ => Unit::Messages,
                },
                count: value,
            },
            REFUSED => Frame::Refused { handler: low },
            ABORTED => Frame::Aborted { slot },
            _ => return Err(Nonsense::Frame),
        };
        // One way to say each thing: what is said otherwise is not from us.
        match frame.encode() == header {
            true => Ok(frame),
            false => Err(Nonsense::Frame),
        }
    }
}

fn class(kind: u8) -> Class {
    match kind & REPLY {
        0 => Class::Request,
        _ => Class::Reply,
    }
}

fn flag(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

/// The first that each end sends.
pub fn greeting() -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

pub fn check_greeting(bytes: &[u8; GREETING]) -> Result<(), Nonsense> {
    if bytes[..8] != MAGIC {
        return Err(Nonsense::Greeting);
    }
    let version = u16::from_le_bytes([bytes[8], bytes[9]]);
    match version == VERSION && *bytes == greeting() {
        true => Ok(()),
        false => Err(Nonsense::Version(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(len: usize, first: Option<u16>, last: bool) -> Frame {
        Frame::Data(Data {
            len,
            slot: 7,
            first,
            last,
            class: Class::Reply,
        })
    }

    #[test]
    fn every_frame_comes_back() {
        let frames = [
            data(0, None, true),
            data(MOST_CARRIED, Some(0xffff), false),
            data(17, Some(0), true),
            Frame::Credit {
                class: Class::Request,
                unit: Unit::Messages,
                count: u32::MAX,
            },
            Frame::Refused { handler: 65535 },
            Frame::Aborted { slot: 65535 },
        ];
        for frame in frames {
            assert_eq!(Frame::decode(frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn whatever_is_taken_is_said_in_one_way() {
        let mut taken = 0;
        let mut word = 1_u64;
        for _ in 0..2_000_000 {
            // Numbers of Marsaglia's xorshift, with many small lengths and valid kinds among them.
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            let header = (word & 0xffff_ffff_7f01_00ff).to_le_bytes();
            if let Ok(frame) = Frame::decode(header) {
                assert_eq!(frame.encode(), header);
                taken += 1;
            }
        }
        assert!(taken > 10_000, "{taken} of them made sense");
    }

    #[test]
    fn too_long_and_unknown_frames_are_refused() {
        let long = ((MOST_CARRIED as u64 + 1) | (u64::from(DATA) << 24)).to_le_bytes();
        assert_eq!(Frame::decode(long), Err(Nonsense::Frame));
        for kind in [0_u8, 5, 15, 0x80 | DATA, CREDIT | LAST] {
            let header = (u64::from(kind) << 24).to_le_bytes();
            assert_eq!(Frame::decode(header), Err(Nonsense::Frame), "kind {kind}");
        }
    }

    #[test]
    fn strangers_and_other_versions_are_told_apart() {
        assert_eq!(check_greeting(&greeting()), Ok(()));
        assert_eq!(
            check_greeting(b"GET / HTTP/1.1\r\n"),
            Err(Nonsense::Greeting)
        );
        let mut later = greeting();
        later[8] = 2;
        assert_eq!(check_greeting(&later), Err(Nonsense::Version(2)));
    }
}
