//! All lines, by what they are asked for.

use std::collections::HashMap;

use super::line::{Line, LineId, Stage};
use super::words::Tuple;

#[derive(Default)]
pub struct Lines {
    all: HashMap<LineId, Line>,
    /// The last that was shown of each connection.
    by_tuple: HashMap<Tuple, LineId>,
    /// Those with a socket that somebody has left to us, by the number of that.
    heirs: HashMap<u32, LineId>,
    last: LineId,
}

impl Lines {
    pub fn insert(&mut self, line: Line) -> LineId {
        self.last += 1;
        self.by_tuple.insert(line.tuple, self.last);
        self.all.insert(self.last, line);
        self.last
    }

    pub fn get(&self, id: LineId) -> Option<&Line> {
        self.all.get(&id)
    }

    pub fn get_mut(&mut self, id: LineId) -> Option<&mut Line> {
        self.all.get_mut(&id)
    }

    pub fn set_stage(&mut self, id: LineId, stage: Stage) {
        if let Some(line) = self.all.get_mut(&id) {
            line.stage = stage;
        }
    }

    pub fn forget_ready(&mut self, id: LineId) {
        if let Some(line) = self.all.get_mut(&id) {
            line.ready_for = None;
        }
    }

    pub fn remove(&mut self, id: LineId) -> Option<Line> {
        let line = self.all.remove(&id)?;
        if self.by_tuple.get(&line.tuple) == Some(&id) {
            self.by_tuple.remove(&line.tuple);
        }
        self.heirs.retain(|_, other| *other != id);
        Some(line)
    }

    /// The line that a connection has now.
    pub fn of(&self, tuple: &Tuple) -> Option<LineId> {
        self.by_tuple.get(tuple).copied()
    }

    pub fn ids(&self) -> Vec<LineId> {
        self.all.keys().copied().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (LineId, &Line)> {
        self.all.iter().map(|(id, line)| (*id, line))
    }

    /// Those that the daemon of a host should know of.
    pub fn fresh(&self, host: usize) -> Vec<LineId> {
        let fresh = |line: &Line| line.host == host && line.is_fresh();
        let lines = self.all.iter().filter(|(_, line)| fresh(line));
        lines.map(|(id, _)| *id).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn add_heir(&mut self, number: u32, id: LineId) {
        self.heirs.insert(number, id);
    }

    pub fn heir(&self, number: u32) -> Option<LineId> {
        self.heirs.get(&number).copied()
    }

    pub fn has_heirs(&self) -> bool {
        !self.heirs.is_empty()
    }
}
