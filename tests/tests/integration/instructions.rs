//! Instructions of the calls that find their ring ready, counted by callgrind and kept in
//! `benches/instructions.txt`: a change shows as a difference of that file. `BLESS=1` rewrites it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tests::ends::{kernel_only, Ends, Side};
use tests::place::{Place, Rings};
use tests::program::built;

const CALLS: [&str; 7] = [
    "send",
    "recv",
    "poll",
    "epoll_wait",
    "write",
    "push",
    "pull",
];
const COUNT: u64 = 100;
/// A larger change must be looked at.
const PERCENT: f64 = 3.0;
const HEADER: &str = "\
# Instructions of one call through libulsock_preload.so, libc's and the hook's included, the kernel's not.
# send, recv (64 B), poll and epoll_wait (one member) find their ring ready; write (64 B) is to a file.
# push and pull (64 B) are the bare ring's: what of a send and a recv is its own work.
# Counted by callgrind (benches/src/bin/counted.rs). To accept a change: BLESS=1 tests/run instructions
";

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/instructions.txt")
}

fn count(call: &str) -> u64 {
    let place = Place::new(Ends::Both).eager();
    let valgrind = place.program(Side::Client, "valgrind");
    let valgrind = valgrind
        .args("--tool=callgrind --callgrind-out-file=/dev/null")
        .arg(format!("--toggle-collect=counted_{call}"))
        .arg(built("counted"));
    let finished = valgrind.arg(call).arg(COUNT.to_string()).start().wait();
    assert!(finished.status.success(), "{call}: {}", finished.errors);
    let mut lines = finished.errors.lines();
    let collected = lines.find_map(|line| line.split_once("Collected :"));
    let (_, total) = collected.unwrap_or_else(|| panic!("{call}: {}", finished.errors));
    place.check(Rings::Any);
    let total: u64 = total.trim().parse().expect("a number");
    (total + COUNT / 2) / COUNT
}

/// Calls and their counts as the file has them.
fn known(text: &str) -> Vec<(&str, u64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (call, count) = line.split_once(' ')?;
            Some((call, count.trim().parse().ok()?))
        })
        .collect()
}

#[test]
fn of_ready_calls() {
    if kernel_only() {
        return;
    }
    let counts = CALLS.map(|call| (call, count(call)));
    if std::env::var_os("BLESS").is_some() {
        let mut text = HEADER.to_owned();
        for (call, count) in counts {
            writeln!(text, "{call:12} {count:6}").expect("a string");
        }
        fs::write(table(), text).expect("the table");
        return;
    }
    let text = fs::read_to_string(table()).expect("the table");
    let known = known(&text);
    let mut changed = String::new();
    for (call, count) in counts {
        let before = known.iter().find(|(name, _)| *name == call);
        let before = before.map_or(0, |(_, count)| *count);
        let percent = (count as f64 / before as f64 - 1.0) * 100.0;
        eprintln!("{call:12} {before:6} -> {count:6}  {percent:+.1} %");
        if percent.is_nan() || percent.abs() > PERCENT {
            writeln!(changed, "-{call:12} {before:6}\n+{call:12} {count:6}").expect("a string");
        }
    }
    assert!(
        changed.is_empty(),
        "instructions have changed; if that is meant, BLESS=1 tests/run instructions\n{changed}"
    );
}
