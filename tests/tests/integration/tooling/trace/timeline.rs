//! A timeline as it was written, and what must hold of every one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

pub struct Timeline {
    pub events: Vec<Value>,
}

/// Whose calls, and in which direction.
const SENDS: [&str; 7] = [
    "write", "writev", "send", "sendto", "sendmsg", "sendmmsg", "sendfile",
];
const RECEIVES: [&str; 6] = ["read", "readv", "recv", "recvfrom", "recvmsg", "recvmmsg"];

/// Nanoseconds.
pub fn nanos(micros: &Value) -> u64 {
    let micros = micros
        .as_f64()
        .unwrap_or_else(|| panic!("no time: {micros}"));
    (micros * 1000.0).round() as u64
}

impl Timeline {
    pub fn read(path: &Path) -> Timeline {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut all: Value = serde_json::from_str(&text).expect("JSON");
        let Value::Array(events) = all["traceEvents"].take() else {
            panic!("no events");
        };
        let timeline = Timeline { events };
        timeline.check();
        timeline
    }

    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |it| it["ph"] == kind)
    }

    pub fn calls(&self) -> impl Iterator<Item = &Value> {
        self.of_kind("X").filter(|it| it["cat"] == "call")
    }

    /// What the calls of a process have moved, or of all.
    fn bytes(&self, names: &[&str], program: Option<u64>) -> u64 {
        let own = self
            .calls()
            .filter(|it| program.is_none() || it["pid"].as_u64() == program);
        let own = own.filter(|it| names.iter().any(|name| it["name"] == *name));
        let moved = own.filter_map(|it| it["args"]["result"].as_i64());
        moved.filter(|it| *it > 0).map(|it| it as u64).sum()
    }

    pub fn sent(&self) -> u64 {
        self.bytes(&SENDS, None)
    }

    pub fn received(&self) -> u64 {
        self.bytes(&RECEIVES, None)
    }

    pub fn pids(&self) -> BTreeSet<u64> {
        self.calls().filter_map(|it| it["pid"].as_u64()).collect()
    }

    pub fn threads(&self) -> BTreeSet<(u64, u64)> {
        let both = |it: &Value| Some((it["pid"].as_u64()?, it["tid"].as_u64()?));
        self.calls().filter_map(both).collect()
    }

    pub fn programs(&self) -> Vec<&str> {
        let names = self.of_kind("M").filter(|it| it["name"] == "process_name");
        names.filter_map(|it| it["args"]["name"].as_str()).collect()
    }

    /// Slices of a thread lie within each other or apart; what begins ends.
    fn check(&self) {
        let mut threads: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for slice in self.of_kind("X") {
            let (start, length) = (nanos(&slice["ts"]), nanos(&slice["dur"]));
            assert!(length < 600_000_000_000, "{slice}");
            let thread = (
                slice["pid"].as_u64().expect("pid"),
                slice["tid"].as_u64().expect("tid"),
            );
            threads
                .entry(thread)
                .or_default()
                .push((start, start + length));
        }
        for (thread, mut slices) in threads {
            slices.sort_by_key(|(start, end)| (*start, std::cmp::Reverse(*end)));
            let mut open: Vec<u64> = Vec::new();
            for (start, end) in slices {
                open.retain(|outer| *outer > start);
                assert!(
                    open.iter().all(|outer| end <= *outer),
                    "{thread:?}: {start} to {end}"
                );
                open.push(end);
            }
        }
        let mut tracks: BTreeMap<&str, i64> = BTreeMap::new();
        for event in &self.events {
            let by = match event["ph"].as_str() {
                Some("b") => 1,
                Some("e") => -1,
                _ => continue,
            };
            let depth = tracks
                .entry(event["id"].as_str().expect("an id"))
                .or_default();
            *depth += by;
            assert!((0..=2).contains(depth), "{event}");
        }
        assert!(tracks.values().all(|depth| *depth == 0), "{tracks:?}");
    }

    /// The sends, or receives, of each connection lie on the carrier that the events say, from the very byte on. For
    /// programs whose connections are each served by one thread.
    pub fn check_carriers(&self) -> usize {
        let mut tracks: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        for moved in self.of_kind("i").filter(|it| it["args"]["byte"].is_u64()) {
            let (args, pid) = (&moved["args"], &moved["pid"]);
            let track = format!("{pid} {} {}", args["record"], args["direction"]);
            tracks.entry(track).or_default().push(moved);
        }
        tracks.values().for_each(|moves| self.check_track(moves));
        tracks.len()
    }

    /// The moves of one direction of one connection, in order.
    fn check_track(&self, moves: &[&Value]) {
        let args = &moves[0]["args"];
        let names: &[&str] = match args["direction"].as_str() {
            Some("sends") => &SENDS,
            _ => &RECEIVES,
        };
        let own = self.calls().filter(|it| it["pid"] == moves[0]["pid"]);
        let own = own.filter(|it| it["args"]["connection"] == args["record"]);
        let own = own.filter(|it| names.iter().any(|name| it["name"] == *name));
        let mut bytes = 0;
        let mut moves = moves.iter().peekable();
        let mut carrier = &args["from"];
        for call in own {
            let end = nanos(&call["ts"]) + nanos(&call["dur"]);
            let moved_bytes = call["args"]["result"].as_i64().unwrap_or(0).max(0);
            // A receive that has taken the last bytes of the old carrier moves before it returns.
            let within = bytes..=bytes + moved_bytes;
            while let Some(moved) = moves.next_if(|it| nanos(&it["ts"]) < end) {
                let byte = moved["args"]["byte"].as_i64().expect("a byte");
                assert!(within.contains(&byte), "{within:?}: {moved}");
                assert_eq!(moved["args"]["from"], *carrier, "{moved}");
                carrier = &moved["args"]["to"];
            }
            assert_eq!(call["args"]["carrier"], *carrier, "{call}");
            bytes += moved_bytes;
        }
    }
}
