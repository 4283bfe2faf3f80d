//! The wires of a region, as their owner knows them, and the mails in which writers note them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netstack::shared_memory;
use netstack::watch::{Armed, Blocks, Mail, WIRES};
use shm::doorbell::Doorbell;
use shm::segment::Segment;
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
    /// The queue has an event of it that nobody has taken.
    is_told: bool,
}

/// The mail of an importer that shares the memory, and its rope to the bell.
#[derive(Debug)]
pub struct SharedMail {
    pub mail: Segment,
    pub rope: Doorbell,
}

impl SharedMail {
    pub fn mail(&self) -> &Mail {
        // SAFETY: it has a page, and lives as long as this.
        unsafe { shared_memory::at(self.mail.base()) }
    }
}

/// What cannot change while somebody looks.
#[derive(Debug, Default)]
pub struct Wires {
    wires: Slab<Wire>,
    pub shared: Vec<Arc<SharedMail>>,
}

/// Where wires are armed and noted.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    pub armed: &'a Armed,
    pub blocks: Blocks,
    /// In which the exporter itself notes.
    pub own: &'a Mail,
}

/// No two wires of a process are the same, and none is named again.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Wires {
    /// The wire's place in the table, and its number.
    pub fn add(
        &mut self,
        watched: Range<u64>,
        fires: Fires,
        tables: Tables<'_>,
    ) -> Result<(usize, u64), MemoryError> {
        let at = self.wires.vacant_key();
        if at >= WIRES {
            return Err(MemoryError::TooManyWires);
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.arm(at, watched.clone(), tables);
        self.wires.insert(Wire {
            id,
            watched,
            fires,
            is_armed: true,
            is_told: false,
        });
        Ok((at, id))
    }

    /// Whether it is still there.
    pub fn rearm(&mut self, at: usize, tables: Tables<'_>) -> bool {
        let Some(wire) = self.wires.get_mut(at) else {
            return false;
        };
        if !wire.is_armed {
            wire.is_armed = true;
            let watched = wire.watched.clone();
            self.arm(at, watched, tables);
        }
        true
    }

    /// What was noted of this place before was of other writes, and perhaps of another wire.
    fn arm(&self, at: usize, watched: Range<u64>, tables: Tables<'_>) {
        self.forget(at, tables.own);
        tables.armed.arm(tables.blocks, at, watched);
    }

    fn forget(&self, at: usize, own: &Mail) {
        own.forget(at);
        self.shared.iter().for_each(|it| it.mail().forget(at));
    }

    pub fn remove(&mut self, at: usize, tables: Tables<'_>) {
        let removed = self.wires.try_remove(at);
        if removed.is_some_and(|wire| wire.is_armed) {
            tables.armed.disarm(tables.blocks, at);
        }
    }

    /// The region is revoked: none of them fires any more, whatever is noted.
    pub fn clear(&mut self) {
        self.wires.clear();
    }

    /// Tells the place and number of each wire that was noted, and has no event that waits to be taken.
    pub fn collect(&mut self, tables: Tables<'_>, mut tell: impl FnMut(usize, u64)) {
        let Wires { wires, shared } = self;
        let mails = shared.iter().map(|shared| shared.mail());
        for mail in mails.chain([tables.own]) {
            mail.take(|at| {
                // A writer may name any.
                let known = wires.get_mut(at);
                let Some(wire) = known.filter(|wire| wire.is_armed && !wire.is_told) else {
                    return;
                };
                wire.is_told = true;
                if wire.fires == Fires::Once {
                    wire.is_armed = false;
                    tables.armed.disarm(tables.blocks, at);
                }
                tell(at, wire.id);
            });
        }
    }

    /// The event of this wire is taken: all that was written until now is of it. Whether the wire is still there.
    pub fn take(&mut self, at: usize, id: u64, own: &Mail) -> bool {
        let known = self.wires.get_mut(at).filter(|wire| wire.id == id);
        let Some(wire) = known else {
            return false;
        };
        wire.is_told = false;
        self.forget(at, own);
        true
    }
}
