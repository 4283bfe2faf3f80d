//! Our own server and client of package net: round trips, streams, half-closes, splice and sendfile, deadlines, errors,
//! options, connections that a child gets, signals, stacks that move.

use tests::go::newest;
use tests::place::{Place, Rings};

use super::{CHAOS, same_as_kernel, same_as_kernel_in, talk};

/// Some connections are of a process with itself, or of a child: these have rings also if the other end is without ulsock.
const ONE_END: &[&str] = &["the server alone", "the client alone"];
/// Subjects whose bytes are many, and of which rings carry the most.
const STREAMS: &str = "ping echo many down half-close vectors raw";

#[test]
fn streams() {
    let program = newest("talk");
    same_as_kernel(Rings::Most, |place| talk(place, &program, STREAMS));
}

/// io.Copy between connections (splice), from files (sendfile), and to Unix sockets. Of these only files do not need many
/// calls of read or write.
#[test]
fn copies() {
    let program = newest("talk");
    let scene = |place: &Place| talk(place, &program, "relay file unix");
    same_as_kernel_in(
        &["default", "the server alone", "the client alone"],
        scene,
        Place::check_quiet,
    );
    same_as_kernel_in(&["at once", CHAOS], scene, on_rings);
}

/// A proxy copies by io.Copy from its first call on, before its connections have rings, and gets them all the same.
#[test]
fn relays() {
    let program = newest("talk");
    let scene = |subject| {
        let program = &program;
        move |place: &Place| talk(place, program, subject)
    };
    same_as_kernel_in(&["default"], scene("relayed"), |place| {
        place.check(Rings::Most);
    });
    // With rings from the first byte on: what is spliced from them is edge-triggered by the kernel's count alone.
    same_as_kernel_in(&["at once", CHAOS], scene("relayed"), Place::check_quiet);
    // Most of these bytes are in the kernel's buffers before there is a ring.
    same_as_kernel_in(&["default"], scene("relay"), on_rings);
    same_as_kernel_in(ONE_END, scene("relayed relay"), Place::check_quiet);
}

#[test]
fn ends_and_options() {
    let program = newest("talk");
    let subjects = "deadlines closed reset refused options listeners datagrams";
    let scene = |place: &Place| talk(place, &program, subjects);
    same_as_kernel_in(ONE_END, scene, Place::check_quiet);
    same_as_kernel_in(&["default", "at once", CHAOS], scene, on_rings);
}

fn on_rings(place: &Place) {
    place.check(Rings::Some);
}

#[test]
fn processes_and_signals() {
    let program = newest("talk");
    let subjects = "handed poured commands signals";
    let scene = |place: &Place| talk(place, &program, subjects);
    same_as_kernel_in(ONE_END, scene, Place::check_quiet);
    same_as_kernel_in(&["default", "at once", CHAOS], scene, on_rings);
}

/// Goroutines that are preempted, whose stacks grow and move, that follow a pointer to nothing, and that end their thread.
#[test]
fn stacks_and_threads() {
    let program = newest("talk");
    let subjects = "stacks threads faults";
    same_as_kernel(Rings::Most, |place| talk(place, &program, subjects));
}
