//! What has happened to each connection, as far as it is known.

use std::collections::{HashMap, VecDeque};

use sockets::journal::Event;
use sockets::observe::{ConnectionRow, Follower, ProgramEvent, Reach};

/// Of one connection: a program that moves it to and fro fills no memory.
const EVENTS: usize = 64;

/// Names a connection: its program, its record there, and the how manieth use of that.
pub type Key = (u64, u32, u32);

pub fn key(row: &ConnectionRow) -> Key {
    (row.family, row.record, row.generation)
}

pub struct History {
    follower: Follower,
    events: HashMap<Key, VecDeque<Event>>,
    /// Since we began to look.
    pub missed: u64,
}

impl History {
    pub fn new() -> History {
        History {
            follower: Follower::with_past(),
            events: HashMap::new(),
            missed: 0,
        }
    }

    /// Looks for news, and forgets connections that are not there any more.
    pub fn look(&mut self, reach: &Reach, live: &[ConnectionRow]) {
        self.follower.find_programs(reach);
        let news = self.follower.news();
        self.missed += news.missed;
        for ProgramEvent { family, event, .. } in news.events {
            let key = (family, event.record, event.generation);
            let events = self.events.entry(key).or_default();
            if events.len() == EVENTS {
                events.pop_front();
            }
            events.push_back(event);
        }
        self.follower.forget_ended();
        let live: std::collections::HashSet<Key> = live.iter().map(key).collect();
        self.events.retain(|key, _| live.contains(key));
    }

    pub fn of(&self, key: &Key) -> impl Iterator<Item = &Event> {
        self.events.get(key).into_iter().flatten()
    }
}
