//! One handled and one bypassed test for each symbol of `preload/symbols.txt`: the cases of the
//! program `symbols`, with ulsock and without, must print the same. On an accelerated connection they
//! also check what the table says of the symbol; elsewhere ulsock must not be noticed.

use tests::ends::{Ends, Side};
use tests::place::Place;

/// Every case on descriptors of this kind.
fn run(kind: &str) {
    let output = |ends| {
        let place = Place::new(ends).eager().with("ULSOCK_EXCLUDE", "127.0.0.2");
        let program = place.own(Side::Server, "symbols");
        let output = program.args(&format!("kind={kind}")).run();
        place.check_quiet();
        output
    };
    let (plain, hooked) = (output(Ends::Kernel), output(Ends::both()));
    for (line, (plain, hooked)) in plain.lines().zip(hooked.lines()).enumerate() {
        assert_eq!(hooked, plain, "line {line} of kind={kind}");
    }
    assert_eq!(hooked.len(), plain.len());
}

#[test]
fn on_an_accelerated_connection() {
    run("tcp");
}

#[test]
fn on_a_kernel_connection() {
    run("kernel");
}

#[test]
fn on_a_unix_socket() {
    run("unix");
}

#[test]
fn on_a_pipe() {
    run("pipe");
}

#[test]
fn on_a_file() {
    run("file");
}

#[test]
fn on_numbers_that_are_not_open() {
    run("bad");
}
