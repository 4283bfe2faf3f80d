//! What exporter and importer say to each other. An importer has a connection for each region: it opens the region first, and all
//! that follows is about this one.

use rendezvous::codec::{Reader, Writer};

use crate::share::{LEN, Ticket};

/// Handler numbers: of the exporter, but for OPENED, FLUSHED and REVOKED.
pub const OPEN: u16 = 0xff10;
pub const OPENED: u16 = 0xff11;
/// The importer has fetched what the ticket stands for, or cannot.
pub const SETTLED: u16 = 0xff12;
/// An offset, then the bytes.
pub const WRITE: u16 = 0xff13;
/// A number, which comes back when all writes before it are in place.
pub const FLUSH: u16 = 0xff14;
pub const FLUSHED: u16 = 0xff15;
pub const REVOKED: u16 = 0xff16;

/// The importer wants to write there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    pub number: u32,
    pub secret: [u8; 16],
    /// Where the importer runs; zeros if it does not know.
    pub host: [u8; 16],
}

impl Open {
    pub const LEN: usize = 36;

    pub fn to_bytes(self) -> Writer<{ Open::LEN }> {
        let bytes = Writer::default().u32(self.number);
        bytes.put(&self.secret).put(&self.host)
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Open> {
        let mut rest = Reader(bytes);
        let open = Open {
            number: rest.u32()?,
            secret: rest.take()?,
            host: rest.take()?,
        };
        rest.ends(open)
    }
}

/// The exporter's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    WrongKey,
    Granted {
        size: u64,
        /// For memory of the same host.
        ticket: Option<Ticket>,
    },
}

impl Opened {
    pub const LEN: usize = 10 + LEN;

    pub fn to_bytes(self) -> Writer<{ Opened::LEN }> {
        let (granted, size, ticket) = match self {
            Opened::WrongKey => (false, 0, None),
            Opened::Granted { size, ticket } => (true, size, ticket),
        };
        let bytes = ticket.map_or([0; LEN], Ticket::to_bytes);
        let head = Writer::default().bool(granted).u64(size);
        head.bool(ticket.is_some()).put(&bytes)
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Opened> {
        let mut rest = Reader(bytes);
        let (granted, size, shared) = (rest.bool()?, rest.u64()?, rest.bool()?);
        let ticket = Ticket::from_bytes(rest.take()?);
        rest.ends(match granted {
            false => Opened::WrongKey,
            true => Opened::Granted {
                size,
                ticket: ticket.filter(|_| shared),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::RegionKey;

    /// What a run of the tests spends here, unless told otherwise.
    const TIME: Duration = Duration::from_secs(1);

    /// Whatever comes is refused, or is what it says again when it is sent on.
    #[test]
    fn whatever_comes() {
        let target = bolero::check!().with_test_time(TIME).with_max_len(80);
        target.for_each(|input: &[u8]| {
            if let Some(open) = Open::from_bytes(input) {
                assert_eq!(open.to_bytes().as_bytes(), input);
            }
            if let Some(opened) = Opened::from_bytes(input) {
                let again = opened.to_bytes();
                assert_eq!(Opened::from_bytes(again.as_bytes()), Some(opened));
            }
            if let Ok(key) = RegionKey::from_bytes(input) {
                assert_eq!(RegionKey::from_bytes(&key.to_bytes()), Ok(key));
            }
        });
    }

    #[test]
    fn only_whole_messages_are_read() {
        let open = Open {
            number: 7,
            secret: [1; 16],
            host: [2; 16],
        };
        let granted = Opened::Granted {
            size: 1 << 40,
            ticket: Ticket::from_bytes([9; LEN]),
        };
        let (open_bytes, granted_bytes) = (open.to_bytes(), granted.to_bytes());
        assert_eq!(Open::from_bytes(open_bytes.as_bytes()), Some(open));
        assert_eq!(Opened::from_bytes(granted_bytes.as_bytes()), Some(granted));
        for len in 0..Open::LEN {
            assert_eq!(Open::from_bytes(&open_bytes.as_bytes()[..len]), None);
        }
        for len in 0..Opened::LEN {
            assert_eq!(Opened::from_bytes(&granted_bytes.as_bytes()[..len]), None);
        }
        let refused = Opened::WrongKey.to_bytes();
        assert_eq!(
            Opened::from_bytes(refused.as_bytes()),
            Some(Opened::WrongKey)
        );
    }
}
