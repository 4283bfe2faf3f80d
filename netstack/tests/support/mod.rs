//! What the tests of a ring share.

mod memory;

pub use memory::*;

use netstack::ring::Memory;
use netstack::ring::mark::LEVEL_SIZE;

impl Heap {
    /// Gives the memory of the larger rings back: what was in them is gone.
    pub fn punch(&self) {
        for (level, size) in LEVEL_SIZE.iter().enumerate().take(MAPPED).skip(1) {
            let rubbish = vec![0xee; *size as usize];
            self.fill(level as u8, 0, rubbish.len(), &mut &rubbish[..]);
        }
    }
}
