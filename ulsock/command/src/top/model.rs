//! What is known now of the programs and their connections, with rates since the look before.

use std::collections::HashMap;
use std::time::{Instant, SystemTime};

use sockets::observe::{self, ConnectionRow, Endpoint, ProgramRow, Reach, WaitCounts};

use super::history::{Key, key};
use super::place;
use crate::selection::Selection;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub tx_bytes: f64,
    pub rx_bytes: f64,
    pub messages: f64,
}

#[derive(Clone, Debug)]
pub struct Connection {
    pub row: ConnectionRow,
    /// Per second.
    pub rates: Rates,
    /// Sent to a peer on this host that has not read it.
    pub unread: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub row: ProgramRow,
    pub rates: Rates,
    /// Since the look before.
    pub waits: WaitCounts,
    pub wake_ups: f64,
    /// Its container or unit.
    pub place: String,
}

#[derive(Default)]
pub struct Model {
    pub programs: Vec<Program>,
    pub connections: Vec<Connection>,
    before: Option<Before>,
}

struct Before {
    time: Instant,
    connections: HashMap<Key, [u64; 3]>,
    waits: HashMap<u64, WaitCounts>,
}

impl Connection {
    /// Of the ring that it sends by, what is filled.
    pub fn fill(&self) -> Option<f64> {
        let size = self.row.tx_ring;
        let unread = self.unread.filter(|_| size > 0)?;
        Some((unread as f64 / size as f64).min(1.0))
    }

    pub fn age(&self) -> std::time::Duration {
        let age = SystemTime::now().duration_since(self.row.born);
        age.unwrap_or_default()
    }

    /// One name if both directions go the same way.
    pub fn carriers(&self) -> String {
        match (self.row.carrier_tx, self.row.carrier_rx) {
            (tx, rx) if tx == rx => tx.to_owned(),
            (tx, rx) => format!("{tx}/{rx}"),
        }
    }
}

impl Model {
    pub fn look(&mut self, reach: &Reach, selection: &Selection) {
        let now = Instant::now();
        let mut rows = observe::programs(reach);
        // The other end may be of a program that is not shown.
        let unread = unread(rows.iter().flat_map(|row| &row.connection_rows));
        rows.retain(|row| selection.has_any(row));
        let time = self.before.as_ref().map(|before| now - before.time);
        let seconds = time.map_or(f64::INFINITY, |time| time.as_secs_f64().max(1e-3));
        self.connections = rows
            .iter()
            .flat_map(|row| &row.connection_rows)
            .filter(|row| selection.has(row.pid, &row.program, [row.local, row.peer]))
            .map(|row| Connection {
                rates: self.rates(row, seconds),
                unread: unread.get(&key(row)).copied(),
                row: row.clone(),
            })
            .collect();
        self.programs = rows
            .into_iter()
            .map(|row| self.program(row, seconds))
            .collect();
        self.before = Some(self.as_before(now));
    }

    fn as_before(&self, time: Instant) -> Before {
        let connections = self.connections.iter();
        let programs = self.programs.iter();
        Before {
            time,
            connections: connections
                .map(|it| (key(&it.row), counts(&it.row)))
                .collect(),
            waits: programs.map(|it| (it.row.family, it.row.waits)).collect(),
        }
    }

    /// Of a connection that is new: all that it has carried.
    fn rates(&self, row: &ConnectionRow, seconds: f64) -> Rates {
        let before = self.before.as_ref();
        let before = before.and_then(|before| before.connections.get(&key(row)));
        let before = before.copied().unwrap_or_default();
        let now = counts(row);
        let rate = |n: usize| now[n].saturating_sub(before[n]) as f64 / seconds;
        Rates {
            tx_bytes: rate(0),
            rx_bytes: rate(1),
            messages: rate(2),
        }
    }

    fn program(&self, row: ProgramRow, seconds: f64) -> Program {
        let mut rates = Rates::default();
        for connection in &self.connections {
            if connection.row.family == row.family {
                rates.tx_bytes += connection.rates.tx_bytes;
                rates.rx_bytes += connection.rates.rx_bytes;
                rates.messages += connection.rates.messages;
            }
        }
        let before = self.before.as_ref();
        let before = before.and_then(|before| before.waits.get(&row.family));
        let before = before.copied().unwrap_or_default();
        let waits = WaitCounts {
            awake: row.waits.awake.saturating_sub(before.awake),
            in_vain: row.waits.in_vain.saturating_sub(before.in_vain),
            slept: row.waits.slept.saturating_sub(before.slept),
            woke: row.waits.woke.saturating_sub(before.woke),
        };
        Program {
            rates,
            waits,
            wake_ups: waits.woke as f64 / seconds,
            place: place::of(row.pid),
            row,
        }
    }
}

/// Sent, received, messages.
fn counts(row: &ConnectionRow) -> [u64; 3] {
    let messages = row.tx_msgs.wrapping_add(row.rx_msgs);
    [row.tx_bytes, row.rx_bytes, messages]
}

/// What each has sent and the other end, if it is on this host, has not read.
fn unread<'a>(rows: impl Iterator<Item = &'a ConnectionRow>) -> HashMap<Key, u64> {
    let mut read: HashMap<(Endpoint, Endpoint), u64> = HashMap::new();
    let mut sent = Vec::new();
    for row in rows {
        if let (Some(local), Some(peer)) = (row.local, row.peer)
            && local != Endpoint::Unix(0)
        {
            read.insert((local, peer), row.rx_bytes);
            sent.push((key(row), (peer, local), row.tx_bytes));
        }
    }
    let unread = |(key, other, sent): (Key, _, u64)| {
        let read = read.get(&other)?;
        Some((key, sent.saturating_sub(*read)))
    };
    sent.into_iter().filter_map(unread).collect()
}

/// Of waits that came to an end: awake, asleep; and those awake in vain, of all that were begun awake.
pub fn shares(waits: &WaitCounts) -> Option<[f64; 3]> {
    let ended = waits.awake + waits.slept;
    let awake = waits.awake + waits.in_vain;
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    (ended > 0).then(|| {
        [
            share(waits.awake, ended),
            share(waits.slept, ended),
            share(waits.in_vain, awake),
        ]
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// From port to port, with so much sent and received.
    pub fn row(record: u32, ports: [u16; 2], bytes: [u64; 2]) -> ConnectionRow {
        let end = |port| Some(std::net::SocketAddr::from(([127, 0, 0, 1], port)).into());
        ConnectionRow {
            family: 1,
            pid: 7,
            program: "redis".to_owned(),
            record,
            generation: 0,
            born: SystemTime::UNIX_EPOCH,
            local: end(ports[0]),
            peer: end(ports[1]),
            carrier_tx: "shm",
            carrier_rx: "shm",
            tx_ring: 1 << 16,
            tx_bytes: bytes[0],
            rx_bytes: bytes[1],
            tx_msgs: 0,
            rx_msgs: 0,
            reason: "",
            holders: 1,
        }
    }

    #[test]
    fn what_the_other_end_has_not_read() {
        let rows = [
            row(0, [80, 99], [5000, 70]),
            row(1, [99, 80], [70, 904]),
            row(2, [80, 98], [10, 10]),
        ];
        let unread = unread(rows.iter());
        assert_eq!(unread.get(&key(&rows[0])), Some(&4096));
        assert_eq!(unread.get(&key(&rows[1])), Some(&0));
        assert_eq!(unread.get(&key(&rows[2])), None, "its peer is not here");
        let connection = Connection {
            row: rows[0].clone(),
            rates: Rates::default(),
            unread: Some(4096),
        };
        assert_eq!(connection.fill(), Some(1.0 / 16.0));
    }
}
