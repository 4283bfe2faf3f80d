//! CRC32C (Castagnoli), alone or in the same pass as a copy.
//!
//! Uses the CPU's own instruction where there is one. It has a latency of three cycles, so that long
//! inputs are cut into three lanes that run side by side and are joined at the end.

mod table;

#[cfg(target_arch = "x86_64")]
mod sse42;

#[cfg(target_arch = "x86_64")]
use sse42::Sse42;

/// A checksum under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc(u32);

impl Crc {
    pub const START: Crc = Crc(!0);

    /// The checksum of all that was added.
    #[inline]
    pub fn value(self) -> u32 {
        !self.0
    }

    /// Adds bytes.
    #[inline]
    #[must_use]
    pub fn over(self, bytes: &[u8]) -> Crc {
        #[cfg(target_arch = "x86_64")]
        if let Some(cpu) = Sse42::of_this_cpu() {
            return Crc(cpu.add(self.0, bytes));
        }
        Crc(table::add(self.0, bytes))
    }

    /// Adds the bytes of these words, from the lowest on.
    #[inline]
    #[must_use]
    pub fn over_words<const N: usize>(self, words: [u64; N]) -> Crc {
        #[cfg(target_arch = "x86_64")]
        if let Some(cpu) = Sse42::of_this_cpu() {
            return Crc(cpu.add_words(self.0, words));
        }
        let add = |crc, word: u64| table::add(crc, &word.to_le_bytes());
        Crc(words.into_iter().fold(self.0, add))
    }

    /// Copies bytes and adds them. Both slices have the same length.
    #[inline]
    #[must_use]
    pub fn copy(self, from: &[u8], to: &mut [u8]) -> Crc {
        #[cfg(target_arch = "x86_64")]
        if let Some(cpu) = Sse42::of_this_cpu() {
            return Crc(cpu.copy(self.0, from, to));
        }
        to.copy_from_slice(from);
        Crc(table::add(self.0, from))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::{Crc, table};

    #[test]
    fn known_values() {
        // RFC 3720, B.4
        assert_eq!(Crc::START.over(&[0; 32]).value(), 0x8a91_36aa);
        assert_eq!(Crc::START.over(&[0xff; 32]).value(), 0x62a8_ab43);
        assert_eq!(Crc::START.over(b"123456789").value(), 0xe306_9283);
        assert_eq!(Crc::START.value(), 0);
        assert_eq!(!table::add(!0, b"123456789"), 0xe306_9283);
        assert_eq!(!table::add(!0, &[0xff; 32]), 0x62a8_ab43);
    }

    proptest! {
        // [W3]
        #[test]
        fn every_way_gives_the_same(bytes in prop::collection::vec(any::<u8>(), 0..5000), cut in 0usize..5000) {
            let slow = !table::add(!0, &bytes);
            let cut = cut.min(bytes.len());
            let (head, tail) = bytes.split_at(cut);
            prop_assert_eq!(Crc::START.over(&bytes).value(), slow);
            prop_assert_eq!(Crc::START.over(head).over(tail).value(), slow);
            let mut copy: Vec<u8> = vec![0; bytes.len()];
            let (to_head, to_tail) = copy.split_at_mut(cut);
            let crc = Crc::START.copy(head, to_head).copy(tail, to_tail);
            prop_assert_eq!(crc.value(), slow);
            prop_assert_eq!(copy, bytes);
        }

        #[test]
        fn words_are_bytes(words: [u64; 5]) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(Crc::START.over_words(words), Crc::START.over(&bytes));
        }
    }
}
