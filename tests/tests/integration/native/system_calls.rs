//! While a ring has something nobody makes a system call: counted by strace.

use std::fs;

use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::ports;

use super::HOWS;

/// A hundred messages of 64 bytes are sent, then received, so often.
const ROUNDS: u64 = 400;
/// Of all kinds, for 40,000 sends and as many receives: start, promotion and end of the program, and looks at the kernel
/// socket once in a tick.
const FEW: u64 = 3_000;

/// How many calls strace has counted.
fn total(counts: &str) -> u64 {
    let line = counts.lines().find(|line| line.ends_with("total"));
    let field = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    field.unwrap_or_else(|| panic!("no total in {counts}"))
}

/// One process has both ends, so that it never waits, whatever else the machine does.
#[test]
fn ready_rings_need_none() {
    if kernel_only() {
        return;
    }
    for how in HOWS {
        let place = Place::new(Ends::both()).eager();
        let counts = place.folder().join("counts");
        let strace = place.client("strace").without("LD_PRELOAD");
        let strace = strace.args("-f -q -c -o").arg(&counts);
        let program = strace.arg(tests::program::built("native"));
        let port = ports::free();
        let program = program.args(&format!("alone how={how} port={port} rounds={ROUNDS}"));
        program.run();
        let (report, _) = place.report(Side::Client);
        assert!(report.ring_bytes() > report.kernel_bytes(), "{report:?}");
        let counts = fs::read_to_string(&counts).expect("strace's counts");
        let calls = total(&counts);
        assert!(calls < FEW, "{how}: {calls} calls\n{counts}");
    }
}
