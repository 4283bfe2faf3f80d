//! A program that is gone with bytes under way: the other end, which reads late, gets them all.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

fn run(how: &str) {
    for &ends in Ends::all() {
        // The second is more than a ring of the first size holds, the third than the kernel queues.
        for bytes in [10_000, 1_000_000, 3_500_000] {
            let place = Place::new(ends).eager();
            let port = ports::free();
            let arguments = format!("port={port} bytes={bytes}");
            let own = |side, role: &str| place.own(side, "leave").args(role).args(&arguments);
            let server = own(Side::Server, "listen").start().listening(port);
            own(Side::Client, "connect")
                .args(&format!("how={how}"))
                .run();
            server.succeed();
            // A program that has become another one does not report.
            let rings = if how.starts_with("exec") {
                Rings::Any
            } else {
                Rings::Some
            };
            place.check(rings);
        }
    }
}

#[test]
fn by_exit() {
    run("exit");
}

#[test]
fn by_exit_without_destructors() {
    run("_exit");
}

#[test]
fn by_quick_exit() {
    run("quick_exit");
}

#[test]
fn by_exec() {
    run("exec");
}

#[test]
fn by_exec_of_one_that_keeps_the_socket() {
    run("exec-keeping");
}

#[test]
fn by_exec_in_a_thread() {
    run("exec-in-thread");
}
