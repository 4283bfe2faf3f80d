//! The first page of an aperture says whose it is, and how it is laid out.
//!
//! Every member of the group can write over it. So its owner repeats it at intervals, and the others read it
//! at intervals.

use core::sync::atomic::Ordering;

use super::lane::word;
use super::layout::{ADDRESS_AT, ApertureLayout, LANES_AT, MAGIC, MAGIC_AT, SIZE_AT};
use crate::phy::sys::Map;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// By which the others know the port.
    pub address: [u8; 6],
    pub layout: ApertureLayout,
}

impl Card {
    /// The magic word last.
    pub fn show(&self, map: &Map) {
        let set = |at, value| word(map, at).store(value, Ordering::Release);
        set(ADDRESS_AT, to_word(self.address));
        set(LANES_AT, self.layout.lanes as u64);
        set(SIZE_AT, self.layout.size as u64);
        set(MAGIC_AT, MAGIC);
    }

    /// Of an aperture of so many bytes. `None`: it is not ready, or speaks another language.
    pub fn read(map: &Map, length: u64) -> Option<Card> {
        let read = |at| word(map, at).load(Ordering::Acquire);
        if read(MAGIC_AT) != MAGIC {
            return None;
        }
        Some(Card {
            layout: ApertureLayout::claimed(read(LANES_AT), read(SIZE_AT), length)?,
            address: from_word(read(ADDRESS_AT)),
        })
    }
}

fn to_word(address: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = address;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn from_word(word: u64) -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = word.to_le_bytes();
    [a, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_as_it_was_shown() {
        let layout = ApertureLayout::within(1 << 20, 2).expect("room");
        let length = layout.total() as u64;
        let map = Map::anonymous(layout.total()).expect("memory");
        let card = Card {
            address: [2, 0, 0, 0, 0, 7],
            layout,
        };
        assert_eq!(Card::read(&map, length), None);
        card.show(&map);
        assert_eq!(Card::read(&map, length), Some(card));
        for at in [MAGIC_AT, ADDRESS_AT, LANES_AT, SIZE_AT] {
            word(&map, at).store(1, Ordering::Relaxed);
            assert_ne!(Card::read(&map, length), Some(card));
            card.show(&map);
            assert_eq!(Card::read(&map, length), Some(card));
        }
    }
}
