//! Signals and cancellation: directed C programs print what they saw, and it must be what the kernel
//! alone gives, whether a wait spins for long, for a while, or not at all.

use crate::{same_as_kernel, same_as_kernel_by_both, same_as_kernel_while_awake};

/// Waits that spin as they see fit, not at all, for long.
const SPINS: &[&str] = &["auto", "0", "1000"];

#[test]
fn interruption_and_restart() {
    same_as_kernel("interrupts", "", &["auto", "0", "-1"]);
}

/// A call that begins again finds whatever its number and its flags mean by then.
#[test]
fn what_a_restarted_call_finds() {
    same_as_kernel("restarts", "", &["auto", "0"]);
}

#[test]
fn what_handlers_see_and_do() {
    same_as_kernel("handlers", "", SPINS);
}

#[test]
fn jumps_out_of_handlers() {
    same_as_kernel("jumps", "300", SPINS);
}

/// With a sleep in every wait, and with spins before it.
#[test]
fn signals_on_the_way_to_sleep() {
    same_as_kernel("door", "1.5", &["0", "auto"]);
}

#[test]
fn cancellation() {
    same_as_kernel("cancel", "300", SPINS);
}

#[test]
fn stops_and_debuggers() {
    same_as_kernel("stops", "", &["0"]);
}

#[test]
fn signals_on_arrival() {
    same_as_kernel_by_both("asynchronous", "", &["auto"]);
}

#[test]
fn urgent_data() {
    same_as_kernel_by_both("urgent", "", SPINS);
}

#[test]
fn handlers_from_before() {
    same_as_kernel("early", "", &["auto"]);
}

#[test]
fn bad_pointers() {
    same_as_kernel("faults", "", &["auto"]);
}

#[test]
fn broken_pipes() {
    same_as_kernel("broken", "", &["auto"]);
}

/// Signals, jumps out of their handlers and cancellation meet waits on kernel TCP that are awake.
#[test]
fn while_awake_on_kernel_tcp() {
    let programs = [
        ("handlers", ""),
        ("jumps", "300"),
        ("door", "1.5"),
        ("cancel", "300"),
        ("urgent", ""),
        ("faults", ""),
    ];
    for (name, arguments) in programs {
        same_as_kernel_while_awake(name, arguments);
    }
}
