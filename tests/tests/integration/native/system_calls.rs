//! While a ring has something nobody makes a system call, and few while the other end answers soon: counted by strace.

use std::fs;

use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::ports;

use super::{HOWS, native};

const ROUNDS: u64 = 20_000;
/// Of all kinds: start, promotion and end of the program, and looks at the kernel socket once in a tick.
const FEW: u64 = 2_000;

/// A task that finds its ring empty looks at the kernel socket once in eight times, and may find it so twice in a round.
fn most(how: &str) -> u64 {
    match how.starts_with("tasks") {
        true => ROUNDS / 2 + FEW,
        false => FEW,
    }
}

/// How many calls strace has counted.
fn total(counts: &str) -> u64 {
    let line = counts.lines().find(|line| line.ends_with("total"));
    let field = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    field.unwrap_or_else(|| panic!("no total in {counts}"))
}

#[test]
fn round_trips_make_few() {
    if kernel_only() {
        return;
    }
    for how in HOWS {
        // The ends wait awake, on however few CPUs.
        let place = Place::new(Ends::both()).eager().with("ULSOCK_SPIN_US", -1);
        let port = ports::free();
        let server = native(&place, Side::Server, "serve", how).args(&format!("port={port}"));
        let server = server.start().listening(port);
        let counts = place.folder().join("counts");
        let strace = place
            .client("strace")
            .without("LD_PRELOAD")
            .args("-f -q -c -o");
        let program = tests::program::built("native");
        let client = strace.arg(&counts).arg(&program).args(&format!(
            "call how={how} port={port} rounds={ROUNDS} max=64"
        ));
        client.run();
        server.succeed();
        let counts = fs::read_to_string(&counts).expect("strace's counts");
        let calls = total(&counts);
        assert!(
            calls < most(how),
            "{how}: {calls} calls for {ROUNDS} round trips\n{counts}"
        );
    }
}
