//! The connections of a link, by index.

use alloc::vec::Vec;

use super::Id;
use super::conn::Conn;

#[derive(Debug, Default)]
pub struct Table {
    slots: Vec<Option<Conn>>,
    free: Vec<u32>,
    /// `[C2]` Given to the last connection; it only grows.
    generation: u32,
    used: u32,
}

impl Table {
    /// A new connection; `None` if there are too many, or no generation is left.
    pub fn add(&mut self, most: u32, make: impl FnOnce(Id) -> Conn) -> Option<Id> {
        if self.used >= most {
            return None;
        }
        let generation = self.generation.checked_add(1)?;
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        let id = Id { index, generation };
        let conn = Some(make(id));
        match self.slots.get_mut(index as usize) {
            Some(slot) => *slot = conn,
            None => self.slots.push(conn),
        }
        self.generation = generation;
        self.used += 1;
        Some(id)
    }

    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Conn> {
        let conn = self.slots.get_mut(id.index as usize)?.as_mut()?;
        (conn.id.generation == id.generation).then_some(conn)
    }

    #[inline]
    pub fn get(&self, id: Id) -> Option<&Conn> {
        let conn = self.slots.get(id.index as usize)?.as_ref()?;
        (conn.id.generation == id.generation).then_some(conn)
    }

    pub fn remove(&mut self, id: Id) -> Option<Conn> {
        self.get(id)?;
        self.used -= 1;
        self.free.push(id.index);
        self.slots.get_mut(id.index as usize)?.take()
    }

    /// `[C8]` Whether this id was given out once.
    pub fn was(&self, id: Id) -> bool {
        (id.index as usize) < self.slots.len() && (1..=self.generation).contains(&id.generation)
    }

    pub fn count(&self) -> usize {
        self.used as usize
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Conn> {
        self.slots.iter_mut().flatten()
    }

    pub fn ids(&self) -> Vec<Id> {
        self.slots.iter().flatten().map(|conn| conn.id).collect()
    }
}
