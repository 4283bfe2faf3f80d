//! The wires of a region, as their owner knows them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use netstack::watch::{Armed, Blocks, WIRES};
use slab::Slab;

use super::error::MemoryError;

/// How often a wire fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fires {
    /// With the first write. Then [`rearm`](super::Tripwire::rearm) sets it again.
    Once,
    Always,
}

#[derive(Debug)]
struct Wire {
    id: u64,
    watched: Range<u64>,
    fires: Fires,
    is_armed: bool,
}

#[derive(Debug, Default)]
pub struct Wires(Slab<Wire>);

/// No two wires of a process are the same, and none is named again.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Wires {
    /// The wire's place in the table, and its number.
    pub fn add(
        &mut self,
        watched: Range<u64>,
        fires: Fires,
        armed: &Armed,
        blocks: Blocks,
    ) -> Result<(usize, u64), MemoryError> {
        let place = self.0.vacant_entry();
        let at = place.key();
        if at >= WIRES {
            return Err(MemoryError::TooManyWires);
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        armed.arm(blocks, at, watched.clone());
        place.insert(Wire {
            id,
            watched,
            fires,
            is_armed: true,
        });
        Ok((at, id))
    }

    pub fn rearm(&mut self, at: usize, armed: &Armed, blocks: Blocks) {
        if let Some(wire) = self.0.get_mut(at)
            && !wire.is_armed
        {
            wire.is_armed = true;
            armed.arm(blocks, at, wire.watched.clone());
        }
    }

    pub fn remove(&mut self, at: usize, armed: &Armed, blocks: Blocks) {
        if self.0.try_remove(at).is_some_and(|wire| wire.is_armed) {
            armed.disarm(blocks, at);
        }
    }

    /// A writer says that it has touched it. `None`: there is no such wire, or it has fired.
    pub fn fire(&mut self, at: usize, armed: &Armed, blocks: Blocks) -> Option<u64> {
        let wire = self.0.get_mut(at).filter(|wire| wire.is_armed)?;
        if wire.fires == Fires::Once {
            wire.is_armed = false;
            armed.disarm(blocks, at);
        }
        Some(wire.id)
    }
}
