//! Which states are known, by their hash.

use std::hash::{Hash, Hasher};

use super::state::World;

/// Of a state, in the order in which they were found.
pub type Index = u32;

/// Indices only: the states are kept elsewhere.
pub struct Table {
    /// Index and hash; as many as a power of two.
    slots: Vec<(Index, u32)>,
    used: usize,
}

const FREE: (Index, u32) = (Index::MAX, 0);

impl Table {
    pub fn new() -> Table {
        Table {
            slots: vec![FREE; 1 << 10],
            used: 0,
        }
    }

    /// The index under which this state is known: the given one, if it is new.
    pub fn add(&mut self, worlds: &[World], index: Index) -> Index {
        if self.used * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let world = &worlds[index as usize];
        let hash = hash(world);
        let same = |slot: (Index, u32)| slot.1 == hash && worlds[slot.0 as usize] == *world;
        let slot = self.slot(hash, same);
        if self.slots[slot] == FREE {
            self.slots[slot] = (index, hash);
            self.used += 1;
        }
        self.slots[slot].0
    }

    /// The first slot from where a hash points to that is the one looked for, or free.
    fn slot(&self, hash: u32, same: impl Fn((Index, u32)) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != FREE && !same(self.slots[slot]) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 4;
        let old = std::mem::replace(&mut self.slots, vec![FREE; size]);
        for entry in old.into_iter().filter(|entry| *entry != FREE) {
            let slot = self.slot(entry.1, |_| false);
            self.slots[slot] = entry;
        }
    }
}

/// Quick rather than good: there are many states, and each has many small fields.
#[derive(Default)]
struct Mix {
    word: u64,
    sum: u64,
    fields: u32,
}

impl Mix {
    fn add(&mut self, field: u64) {
        self.word = self.word << 8 | field;
        self.fields += 1;
        if self.fields.is_multiple_of(8) {
            self.sum = (self.sum.rotate_left(5) ^ self.word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte));
    }

    fn write_isize(&mut self, number: isize) {
        self.add(number as u64 & 0xff);
    }

    fn finish(&self) -> u64 {
        let sum = (self.sum ^ self.word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^ sum >> 32
    }
}

fn hash(world: &World) -> u32 {
    let mut mix = Mix::default();
    world.hash(&mut mix);
    mix.finish() as u32
}
