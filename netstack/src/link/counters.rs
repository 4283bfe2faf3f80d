//! What a link has seen.

use crate::wire::Malformed;

/// `[X1]` Why a packet was dropped, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Dropped {
    Length,
    Version,
    Kind,
    Flags,
    Field,
    /// It came another way than it says.
    Way,
    Tag,
    Crc,
    /// No part of the handshake that is under way.
    Handshake,
    Token,
    Acknowledgement,
    /// An offset, a credit or a name that cannot be.
    Offset,
    /// No room to remember it.
    Full,
    /// `[C5]` Its ring is frozen.
    Frozen,
    /// `[C8]` Its connection was reset.
    Ended,
    /// `[P2]` It was here before.
    Again,
}

impl Dropped {
    pub const ALL: [Dropped; 16] = [
        Dropped::Length,
        Dropped::Version,
        Dropped::Kind,
        Dropped::Flags,
        Dropped::Field,
        Dropped::Way,
        Dropped::Tag,
        Dropped::Crc,
        Dropped::Handshake,
        Dropped::Token,
        Dropped::Acknowledgement,
        Dropped::Offset,
        Dropped::Full,
        Dropped::Frozen,
        Dropped::Ended,
        Dropped::Again,
    ];
}

impl From<Malformed> for Dropped {
    fn from(malformed: Malformed) -> Dropped {
        match malformed {
            Malformed::Length => Dropped::Length,
            Malformed::Version => Dropped::Version,
            Malformed::Kind => Dropped::Kind,
            Malformed::Flags => Dropped::Flags,
            Malformed::Field => Dropped::Field,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    pub packets_sent: u64,
    pub bytes_sent: u64,
    pub packets_received: u64,
    /// Stream bytes sent a second time, or more.
    pub bytes_again: u64,
    pub packets_lost: u64,
    /// `[R6]` Taken for lost, and received after all.
    pub packets_late: u64,
    /// `[R4]`
    pub probes: u64,
    dropped: [u64; Dropped::ALL.len()],
}

impl LinkCounters {
    pub fn dropped(&self, why: Dropped) -> u64 {
        self.dropped[why as usize]
    }

    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(super) fn drop(&mut self, why: Dropped) {
        self.dropped[why as usize] += 1;
    }
}
