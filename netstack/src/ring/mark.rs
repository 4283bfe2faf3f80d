//! A switch mark: where a stretch begins and which carrier carries it, in one word.

/// Ring levels: a ring grows by moving to the next level at an exact byte.
pub const LEVELS: usize = 5;

/// Bytes of a ring of each level.
pub const LEVEL_SIZE: [u64; LEVELS] = LEVEL_SIZES;

// Under loom the rings are a few bytes, so that they fill, wrap and grow within a short model.
#[cfg(loom)]
const LEVEL_SIZES: [u64; LEVELS] = [2, 4, 8, 16, 32];
#[cfg(not(loom))]
const LEVEL_SIZES: [u64; LEVELS] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Stream offsets stay below this, so that they fit a mark; 2^60 bytes are a century at 300 MB/ms.
pub const MAX_OFFSET: u64 = 1 << 60;

/// What carries a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Kernel,
    /// A ring of this level, below [`LEVELS`].
    Ring(u8),
}

impl Carrier {
    pub fn is_ring(self) -> bool {
        self != Carrier::Kernel
    }

    pub(super) fn code(self) -> u64 {
        match self {
            Carrier::Kernel => 0,
            Carrier::Ring(level) => u64::from(level) + 1,
        }
    }

    #[inline]
    pub(super) fn from_code(code: u64) -> Option<Carrier> {
        match code {
            0 => Some(Carrier::Kernel),
            n if n <= LEVELS as u64 => Some(Carrier::Ring((n - 1) as u8)),
            _ => None,
        }
    }
}

/// The beginning of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub start: u64,
    pub carrier: Carrier,
}

impl Mark {
    pub fn pack(self) -> u64 {
        self.start << 3 | self.carrier.code()
    }

    /// `None` for a word that no honest peer writes.
    pub fn unpack(word: u64) -> Option<Mark> {
        let carrier = Carrier::from_code(word & 7)?;
        let start = word >> 3;
        (start < MAX_OFFSET).then_some(Mark { start, carrier })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn packs_and_unpacks() {
        for carrier in [Carrier::Kernel, Carrier::Ring(0), Carrier::Ring(4)] {
            let mark = Mark {
                start: 123_456_789_012,
                carrier,
            };
            assert_eq!(Mark::unpack(mark.pack()), Some(mark));
        }
    }

    #[test]
    fn refuses_nonsense() {
        assert_eq!(Mark::unpack(6), None);
        assert_eq!(Mark::unpack(7), None);
        assert_eq!(Mark::unpack(MAX_OFFSET << 3), None);
    }
}
