//! A region, as its exporter holds it, and its tripwires.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use super::error::MemoryError;
use super::key::RegionKey;
use super::owner::Owner;
use super::place::Place;
use super::queue::WireId;
use super::registry::{Keeper, Registry};
use super::wires::Fires;

/// Memory that others can write who have its key. When this is dropped, their writes fail.
///
/// What is here can change at any time: bytes are copied out, then checked, and then used.
pub struct Region {
    owner: Arc<Owner>,
    keeper: Arc<Keeper>,
}

impl Region {
    pub(super) fn new(owner: Arc<Owner>, keeper: Arc<Keeper>) -> Region {
        Region { owner, keeper }
    }

    fn registry(&self) -> &Arc<Registry> {
        &self.keeper.0
    }

    /// The bytes, in the process that has exported them: a child of fork still has them mapped.
    fn place(&self) -> Result<&Place, MemoryError> {
        match self.registry().is_of_this_process() {
            true => Ok(&self.owner.place),
            false => Err(MemoryError::Forked),
        }
    }

    /// What an importer needs.
    pub fn key(&self) -> RegionKey {
        RegionKey {
            address: self.registry().address,
            number: self.owner.number,
            secret: self.owner.secret,
        }
    }

    pub fn size(&self) -> usize {
        self.owner.place.size()
    }

    /// Fills the room with the bytes from `offset` on.
    pub fn read(&self, offset: usize, room: &mut [u8]) -> Result<(), MemoryError> {
        self.place()?.read(offset, room)
    }

    /// Puts bytes there. This trips no wire: those are for what others write.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.place()?.write(offset, bytes)
    }

    /// The word of eight bytes at a multiple of eight, in this host's order. It is written and read at once; and who has read it
    /// sees what its writer had written before.
    pub fn load(&self, offset: usize) -> Result<u64, MemoryError> {
        self.place()?.load(offset)
    }

    pub fn store(&self, offset: usize, word: u64) -> Result<(), MemoryError> {
        self.place()?.store(offset, word)
    }

    /// From now on writes into this range fire the wire, each when it is complete, in the queue with which the region was exported.
    /// What was written before can be read now.
    pub fn wire(&self, range: Range<usize>, fires: Fires) -> Result<Tripwire, MemoryError> {
        if !self.registry().is_of_this_process() {
            return Err(MemoryError::Forked);
        }
        if range.is_empty() || range.end > self.size() {
            return Err(MemoryError::OutOfRange);
        }
        let watched = range.start as u64..range.end as u64;
        let add = self
            .owner
            .wires(|wires, tables| wires.add(watched, fires, tables));
        let (at, id) = add?;
        Ok(Tripwire {
            owner: Arc::downgrade(&self.owner),
            registry: self.registry().clone(),
            at,
            id,
        })
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:?}, {} bytes)", self.key(), self.size())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.registry().is_of_this_process() {
            self.owner.wires(|wires, _| wires.clear());
            self.registry().revoke(self.owner.number);
        }
    }
}

/// A wire on a range of a region. It fires no more when this is dropped, nor when the region is.
pub struct Tripwire {
    /// It does not keep the memory of a region that is dropped.
    owner: Weak<Owner>,
    registry: Arc<Registry>,
    at: usize,
    id: u64,
}

impl Tripwire {
    /// By which its events tell it.
    pub fn id(&self) -> WireId {
        WireId(self.id)
    }

    /// Sets a wire again that fires once. What was written meanwhile can be read now. An error is the end of the region.
    pub fn rearm(&self) -> Result<(), MemoryError> {
        if !self.registry.is_of_this_process() {
            return Err(MemoryError::Forked);
        }
        let rearm = |owner: Arc<Owner>| owner.wires(|wires, tables| wires.rearm(self.at, tables));
        match self.owner.upgrade().is_some_and(rearm) {
            true => Ok(()),
            false => Err(MemoryError::Revoked),
        }
    }
}

impl fmt::Debug for Tripwire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tripwire({})", self.id)
    }
}

impl Drop for Tripwire {
    fn drop(&mut self) {
        if self.registry.is_of_this_process()
            && let Some(owner) = self.owner.upgrade()
        {
            owner.wires(|wires, tables| wires.remove(self.at, tables));
        }
    }
}
