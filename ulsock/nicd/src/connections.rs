//! All connections, by what they are asked for.

use std::collections::HashMap;

use super::connection::{Connection, ConnectionId, Stage};
use super::peer_messages::Tuple;

#[derive(Default)]
pub struct Connections {
    all: HashMap<ConnectionId, Connection>,
    /// The last that was shown, by its addresses.
    by_tuple: HashMap<Tuple, ConnectionId>,
    /// Those with a socket that somebody has left to us, by the number of that.
    orphans: HashMap<u32, ConnectionId>,
    last: ConnectionId,
}

impl Connections {
    pub fn insert(&mut self, connection: Connection) -> ConnectionId {
        self.last += 1;
        self.by_tuple.insert(connection.tuple, self.last);
        self.all.insert(self.last, connection);
        self.last
    }

    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.all.get(&id)
    }

    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.all.get_mut(&id)
    }

    pub fn set_stage(&mut self, id: ConnectionId, stage: Stage) {
        if let Some(connection) = self.all.get_mut(&id) {
            connection.stage = stage;
        }
    }

    pub fn forget_ready(&mut self, id: ConnectionId) {
        if let Some(connection) = self.all.get_mut(&id) {
            connection.ready_for = None;
        }
    }

    pub fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.all.remove(&id)?;
        if self.by_tuple.get(&connection.tuple) == Some(&id) {
            self.by_tuple.remove(&connection.tuple);
        }
        self.orphans.retain(|_, other| *other != id);
        Some(connection)
    }

    /// The last that was shown with these addresses.
    pub fn of(&self, tuple: &Tuple) -> Option<ConnectionId> {
        self.by_tuple.get(tuple).copied()
    }

    pub fn ids(&self) -> Vec<ConnectionId> {
        self.all.keys().copied().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.all.iter().map(|(id, connection)| (*id, connection))
    }

    /// Those that the daemon of a host should know of.
    pub fn fresh(&self, host: usize) -> Vec<ConnectionId> {
        let fresh = |connection: &Connection| connection.host == host && connection.is_fresh();
        let connections = self.all.iter().filter(|(_, connection)| fresh(connection));
        connections.map(|(id, _)| *id).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn add_orphan(&mut self, number: u32, id: ConnectionId) {
        self.orphans.insert(number, id);
    }

    pub fn orphan(&self, number: u32) -> Option<ConnectionId> {
        self.orphans.get(&number).copied()
    }

    pub fn orphan_ids(&self) -> Vec<ConnectionId> {
        self.orphans.values().copied().collect()
    }

    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }
}
