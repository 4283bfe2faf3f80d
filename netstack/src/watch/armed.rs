//! The wires of a region: their owner writes them, writers of the region read them.

use core::ops::Range;

use super::{BLOCKS, GROUPS, PER_GROUP, WIRES, bits};
use crate::ring::sync::{AtomicU64, Ordering, fence};

/// How a region is divided, so that a write looks only at the wires of its neighbourhood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    shift: u32,
}

/// A cache line.
const LEAST_SHIFT: u32 = 6;

impl Blocks {
    /// For a region of so many bytes.
    pub fn new(size: u64) -> Blocks {
        let each = size.div_ceil(BLOCKS as u64).max(1);
        let shift = u64::BITS - (each - 1).leading_zeros();
        Blocks {
            shift: shift.max(LEAST_SHIFT),
        }
    }

    /// Those that these bytes lie in. Beyond the region there are none.
    pub(super) fn of(self, bytes: &Range<u64>) -> Range<usize> {
        if bytes.is_empty() {
            return 0..0;
        }
        let [first, last] = [bytes.start, bytes.end - 1].map(|at| (at >> self.shift) as usize);
        first.min(BLOCKS)..last.saturating_add(1).min(BLOCKS)
    }
}

/// The bytes that a wire watches; none if it is not armed.
#[repr(C)]
struct Slot {
    start: AtomicU64,
    end: AtomicU64,
}

#[repr(C)]
pub struct Armed {
    /// Groups with an armed wire.
    groups: AtomicU64,
    /// For each block the groups with a wire that watches some of it.
    blocks: [AtomicU64; BLOCKS],
    slots: [Slot; WIRES],
}

#[cfg(not(loom))]
crate::in_shared_memory!(Slot { start, end });
#[cfg(not(loom))]
crate::in_shared_memory!(Armed {
    groups,
    blocks,
    slots
});

impl Slot {
    fn watched(&self) -> Range<u64> {
        self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }

    fn watches(&self, bytes: &Range<u64>) -> bool {
        let watched = self.watched();
        watched.start < bytes.end && bytes.start < watched.end
    }

    fn set(&self, watched: Range<u64>) {
        self.start.store(watched.start, Ordering::Relaxed);
        self.end.store(watched.end, Ordering::Relaxed);
    }
}

impl Armed {
    pub fn new() -> Armed {
        Armed {
            groups: AtomicU64::new(0),
            blocks: core::array::from_fn(|_| AtomicU64::new(0)),
            slots: core::array::from_fn(|_| Slot {
                start: AtomicU64::new(0),
                end: AtomicU64::new(0),
            }),
        }
    }

    /// Owner, one at a time: a write into these bytes that ends from now on is noted. What was written before can be seen now.
    pub fn arm(&self, blocks: Blocks, wire: usize, watched: Range<u64>) {
        let group = 1 << (wire / PER_GROUP);
        self.slots[wire].set(watched.clone());
        for block in blocks.of(&watched) {
            self.blocks[block].fetch_or(group, Ordering::Release);
        }
        self.groups.fetch_or(group, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Owner, one at a time. A write that is under way may still note it.
    pub fn disarm(&self, blocks: Blocks, wire: usize) {
        let watched = self.slots[wire].watched();
        self.slots[wire].set(0..0);
        let number = wire / PER_GROUP;
        let others = &self.slots[number * PER_GROUP..][..PER_GROUP];
        for block in blocks.of(&watched) {
            let watches = |slot: &Slot| blocks.of(&slot.watched()).contains(&block);
            if !others.iter().any(watches) {
                self.blocks[block].fetch_and(!(1 << number), Ordering::Relaxed);
            }
        }
        if others.iter().all(|slot| slot.watched().is_empty()) {
            self.groups.fetch_and(!(1 << number), Ordering::Relaxed);
        }
    }

    /// Writer, after it has copied: tells each group with the wires in it that watch some of these bytes. Without a wire this is
    /// a fence and a load.
    #[inline]
    pub fn look(&self, blocks: Blocks, written: Range<u64>, note: impl FnMut(usize, u32)) {
        fence(Ordering::SeqCst);
        if self.groups.load(Ordering::Relaxed) != 0 {
            self.look_closely(blocks, written, note);
        }
    }

    fn look_closely(&self, blocks: Blocks, written: Range<u64>, mut note: impl FnMut(usize, u32)) {
        let near = &self.blocks[blocks.of(&written)];
        // Acquire pairs with `arm`: who sees the group sees the bytes that its wires watch.
        let groups = near
            .iter()
            .fold(0, |all, block| all | block.load(Ordering::Acquire));
        for group in bits(groups).take_while(|group| *group < GROUPS) {
            let slots = &self.slots[group * PER_GROUP..][..PER_GROUP];
            let wires = slots.iter().enumerate();
            let touched = wires.filter(|(_, slot)| slot.watches(&written));
            let touched = touched.fold(0, |all, (number, _)| all | 1 << number);
            if touched != 0 {
                note(group, touched);
            }
        }
    }
}

impl Default for Armed {
    fn default() -> Armed {
        Armed::new()
    }
}
