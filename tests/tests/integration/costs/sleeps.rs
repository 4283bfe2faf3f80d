//! Sleeps on connections that are on the kernel take no more system calls than without ulsock: counted by strace.

use std::fs;
use std::path::Path;

use tests::ends::{Ends, kernel_only};
use tests::place::Place;

use crate::c_program;

/// Each sleep of the program is one call; a few more are made at its start.
const SLEEPS: u64 = 200;
const EXPIRED: u64 = 20;
const FEW: u64 = 40;

/// Runs the program, and counts its calls of these names.
fn calls(place: &Place, mode: &str, names: &str) -> u64 {
    let program = c_program("sleeps", place);
    let counts = place.folder().join("counts");
    let strace = place.client("strace").args("-f -q -c -o").arg(&counts);
    let strace = strace.args(&format!("-e trace={names}"));
    let output = strace.arg(&program).args(mode).run();
    assert_eq!(output, "done\n");
    calls_of(&counts, names)
}

/// How often calls of these names were made, as strace counts them. It writes no table if there was none.
pub fn calls_of(counts: &Path, names: &str) -> u64 {
    let counts = fs::read_to_string(counts).expect("strace's counts");
    let calls = counts.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields.last()?;
        names
            .split(',')
            .any(|wanted| wanted == *name)
            .then_some(())?;
        fields.get(3)?.parse::<u64>().ok()
    });
    calls.sum()
}

/// It was two calls for each, and three for one whose time ran out.
#[test]
fn in_poll() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both()).with("ULSOCK_UPGRADE_AFTER", "1000000");
    let polls = calls(&place, "polls", "poll,ppoll");
    let wanted = SLEEPS + EXPIRED;
    assert!((wanted..wanted + FEW).contains(&polls), "{polls} polls");
}

/// A set whose members are all on the kernel does not wait awake for rings, even if it once had a member on one.
#[test]
fn in_a_set_that_once_had_a_ring() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let yields = calls(&place, "waits", "sched_yield");
    assert!(yields < FEW, "{yields} times given way");
}
