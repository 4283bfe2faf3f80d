//! What members say to each other, over the message link between each two of them. All of it comes from elsewhere, and is checked
//! before it is used.

use crate::share;

/// What this is about changes only together with it.
const VERSION: u16 = 1;

/// Bytes of a sender that one message carries to a relay.
pub const CHUNK: usize = 32 << 10;

/// The longest of all.
pub const LONGEST: usize = CHUNK + 64;

/// No slot: its cursor comes by messages.
pub const NO_SLOT: u16 = u16::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The first thing that each says: who it is, and how its memory can be fetched.
    Hello {
        number: u32,
        ring: u64,
        /// Where its cursor in the other's ring is, in its page.
        slot: u16,
        ticket: Option<[u8; share::LEN]>,
    },
    /// Whether the other's memory could be fetched.
    Mapped(bool),
    /// The sender's messages come from this position on: from its own ring, or from that of a relay, which begins at `base`.
    Feed {
        start: u64,
        base: u64,
        relay: Option<u32>,
    },
    /// How a member has come forward in the ring of the one who hears this.
    Taken(u64),
    /// Bytes of the sender, to a relay.
    Data { at: u64, bytes: Vec<u8> },
    /// To a relay: where is the ring of this sender?
    Where { sender: u32 },
    /// From a relay.
    Here {
        sender: u32,
        ticket: [u8; share::LEN],
    },
    /// To a sender: the relay that it has named cannot be read.
    Alone,
    /// It leaves, and its last message ends here.
    Bye { end: u64 },
    /// From a relay: nothing more comes of this sender.
    Over { sender: u32 },
}

/// Writes numbers one after the other.
struct Writer(Vec<u8>);

impl Writer {
    fn put(mut self, bytes: &[u8]) -> Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(self, value: u16) -> Writer {
        self.put(&value.to_le_bytes())
    }

    fn u32(self, value: u32) -> Writer {
        self.put(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Writer {
        self.put(&value.to_le_bytes())
    }
}

impl Said {
    /// With its number among all that was said on this link.
    pub fn encode(&self, turn: u64) -> Vec<u8> {
        let begin = |kind: u8| Writer(Vec::with_capacity(64)).u64(turn).put(&[kind]);
        let written = match self {
            Said::Hello {
                number,
                ring,
                slot,
                ticket,
            } => {
                let written = begin(0).u16(VERSION).u32(*number).u64(*ring).u16(*slot);
                written.put(ticket.as_ref().map_or(&[], |ticket| ticket.as_slice()))
            }
            Said::Mapped(mapped) => begin(1).put(&[u8::from(*mapped)]),
            Said::Feed { start, base, relay } => {
                let written = begin(2).u64(*start).u64(*base);
                match relay {
                    None => written,
                    Some(relay) => written.u32(*relay),
                }
            }
            Said::Taken(at) => begin(3).u64(*at),
            Said::Data { at, bytes } => begin(4).u64(*at).put(bytes),
            Said::Where { sender } => begin(5).u32(*sender),
            Said::Here { sender, ticket } => begin(6).u32(*sender).put(ticket),
            Said::Alone => begin(7),
            Said::Bye { end } => begin(8).u64(*end),
            Said::Over { sender } => begin(9).u32(*sender),
        };
        written.0
    }

    /// `None`: no member says this.
    pub fn decode(bytes: &[u8]) -> Option<(u64, Said)> {
        let mut rest = Reader(bytes);
        let turn = rest.u64()?;
        let [kind] = rest.take()?;
        let said = match kind {
            0 => rest.hello()?,
            1 => match rest.take()? {
                [0] => Said::Mapped(false),
                [1] => Said::Mapped(true),
                _ => return None,
            },
            2 => Said::Feed {
                start: rest.position()?,
                base: rest.position()?,
                relay: match rest.0.is_empty() {
                    true => None,
                    false => Some(rest.u32()?),
                },
            },
            3 => Said::Taken(rest.position()?),
            4 => Said::Data {
                at: rest.position()?,
                bytes: rest.all()?,
            },
            5 => Said::Where {
                sender: rest.u32()?,
            },
            6 => Said::Here {
                sender: rest.u32()?,
                ticket: rest.take()?,
            },
            7 => Said::Alone,
            8 => Said::Bye {
                end: rest.position()?,
            },
            9 => Said::Over {
                sender: rest.u32()?,
            },
            _ => return None,
        };
        rest.0.is_empty().then_some((turn, said))
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// Nobody sends as much as would let sums overflow.
    fn position(&mut self) -> Option<u64> {
        let position = self.u64()?;
        (position < 1 << 62 && position.is_multiple_of(8)).then_some(position)
    }

    fn all(&mut self) -> Option<Vec<u8>> {
        let bytes = std::mem::take(&mut self.0);
        let fits = !bytes.is_empty() && bytes.len() <= CHUNK && bytes.len().is_multiple_of(8);
        fits.then(|| bytes.to_vec())
    }

    fn hello(&mut self) -> Option<Said> {
        if self.u16()? != VERSION {
            return None;
        }
        Some(Said::Hello {
            number: self.u32()?,
            ring: self.u64()?,
            slot: self.u16()?,
            ticket: match self.0.is_empty() {
                true => None,
                false => Some(self.take()?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn all() -> Vec<Said> {
        let ticket = [7; share::LEN];
        let hello = |ticket| Said::Hello {
            number: 5,
            ring: 1 << 20,
            slot: 3,
            ticket,
        };
        let feed = |relay| Said::Feed {
            start: 64,
            base: 8,
            relay,
        };
        vec![
            hello(None),
            hello(Some(ticket)),
            Said::Mapped(true),
            Said::Mapped(false),
            feed(None),
            feed(Some(9)),
            Said::Taken(800),
            Said::Data {
                at: 16,
                bytes: vec![1; 24],
            },
            Said::Where { sender: 4 },
            Said::Here { sender: 4, ticket },
            Said::Alone,
            Said::Bye { end: 0 },
            Said::Over { sender: 4 },
        ]
    }

    #[test]
    fn what_is_said_is_understood() {
        for said in all() {
            let bytes = said.encode(17);
            assert!(bytes.len() <= LONGEST);
            assert_eq!(Said::decode(&bytes), Some((17, said)));
        }
    }

    #[test]
    fn what_is_too_short_or_too_long_is_not() {
        for said in all() {
            let bytes = said.encode(1);
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Said::decode(&longer), None, "{said:?}");
            for len in 0..bytes.len() {
                let shorter = Said::decode(&bytes[..len]);
                assert_ne!(shorter.map(|(_, said)| said), Some(said.clone()));
            }
        }
        for at in [1 << 62, 12, u64::MAX] {
            assert_eq!(Said::decode(&Said::Taken(at).encode(1)), None);
        }
    }
    /// Whatever comes, it is refused, or it is what somebody can say.
    #[test]
    fn fuzz() {
        let target = bolero::check!().with_test_time(Duration::from_secs(1));
        target.for_each(|bytes: &[u8]| {
            if let Some((turn, said)) = Said::decode(bytes) {
                assert_eq!(said.encode(turn), bytes);
            }
        });
    }
}
