//! Signals and cancellation: directed C programs print what they saw, and it must be what the kernel
//! alone gives, whether a wait spins for long, for a while, or not at all.

use tests::ends::{kernel_only, Ends, Side};
use tests::place::Place;

use crate::c_program;

/// Runs a program on kernel TCP and then, with each way of spinning, accelerated.
fn same_as_kernel(name: &str, arguments: &str) {
    let place = Place::new(Ends::Kernel);
    let program = c_program(name, &place);
    let kernel = place.client(&program).args(arguments).run();
    if kernel_only() {
        return;
    }
    for spin in ["auto", "0", "1000", "-1"] {
        let place = Place::new(Ends::Both).eager().with("ULSOCK_SPIN_US", spin);
        let program = c_program(name, &place);
        let accelerated = place.client(&program).args(arguments).run();
        assert_eq!(accelerated, kernel, "{name} with ULSOCK_SPIN_US={spin}");
        place.check_quiet();
        let (report, _) = place.report(Side::Client);
        assert!(
            report.upgraded > 0 && report.ring_bytes() > report.kernel_bytes(),
            "{name} with ULSOCK_SPIN_US={spin}: {report:?}"
        );
    }
}

#[test]
fn interruption_and_restart() {
    same_as_kernel("interrupts", "");
}

#[test]
fn what_handlers_see_and_do() {
    same_as_kernel("handlers", "");
}

#[test]
fn jumps_out_of_handlers() {
    same_as_kernel("jumps", "300");
}

#[test]
fn cancellation() {
    same_as_kernel("cancel", "300");
}
