//! Waits on connections that kernel TCP carries are awake where they should be, and only there: the program's threads give way
//! between looks, and nothing else of theirs does. That is counted by strace, which lets all other calls pass unseen, so that
//! the counts hold on a busy machine, too.

use std::fs;

use tests::ends::{Ends, kernel_only};
use tests::place::Place;

use super::sleeps::calls_of;
use crate::c_program;

/// Waits of the program, and its ways to wait; and a receive on a connection that is left alone.
const WAITS: u64 = 100;
const WAYS: [&str; 6] = ["recv", "read", "readv", "poll", "select", "set"];
const LEFT_ALONE: &str = "kept";

/// How often the program gives way that waits so. It believes that the host has CPUs to spare.
fn yields(place: &Place, way: &str) -> u64 {
    let program = c_program("awake", place);
    let load = place.folder().join("loadavg");
    fs::write(&load, "0.00 0.00 0.00 1/80 1\n").expect("a load of the test's own");
    let counts = place.folder().join("counts");
    let script = r#"mount --bind "$1" /proc/loadavg && exec strace -f -q -c -o "$2" --seccomp-bpf -e trace=sched_yield "$3" "$4""#;
    let shell = place.client("unshare").args("-m sh -c").arg(script);
    let shell = shell.arg("sh").arg(&load).arg(&counts).arg(&program);
    assert_eq!(shell.arg(way).run(), "done\n");
    calls_of(&counts, "sched_yield")
}

fn place(way: &str) -> Place {
    let place = Place::new(Ends::both());
    match way {
        LEFT_ALONE => place,
        _ => place.with("ULSOCK_UPGRADE_AFTER", "1000000"),
    }
}

/// With a fixed time every wait looks that long, whatever the clock says.
#[test]
fn in_every_call() {
    if kernel_only() {
        return;
    }
    for way in WAYS.into_iter().chain([LEFT_ALONE]) {
        let place = place(way).with("ULSOCK_SPIN_US", "500");
        let yields = yields(&place, way);
        // One that the machine has held up finds its byte there.
        assert!(yields >= WAITS / 2, "{way}: {yields} times given way");
    }
}

#[test]
fn nowhere_if_turned_off() {
    if kernel_only() {
        return;
    }
    for way in WAYS.into_iter().chain([LEFT_ALONE]) {
        let place = place(way)
            .with("ULSOCK_SPIN_US", "500")
            .with("ULSOCK_AWAKE", "off");
        assert_eq!(yields(&place, way), 0, "{way}");
    }
}

/// By default, where the answer to each message is waited for at once. A program that computes beside it takes a time slice
/// from whoever waits awake, who then rests, but not before it has given way; so one is enough.
#[test]
fn by_default_in_a_rhythm() {
    if kernel_only() {
        return;
    }
    let yields = yields(&place("rhythm"), "rhythm");
    assert!(yields > 0, "no wait was awake");
}

/// Waits that do not follow each other closely sleep at once.
#[test]
fn by_default_not_without_one() {
    if kernel_only() {
        return;
    }
    for way in WAYS {
        assert_eq!(yields(&place(way), way), 0, "{way}");
    }
}
