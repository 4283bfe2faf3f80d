//! sockperf: ping-pong, under load and throughput; it checks the order of its messages itself.

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::ports;

/// Sub-command with options, and what its output must contain.
const CASES: &[(&str, &str)] = &[
    ("ping-pong -m 5000", NOTHING_LOST),
    (
        "under-load -m 100 --mps 10000 --reply-every 10",
        NOTHING_LOST,
    ),
    ("throughput -m 1400", "Message Rate is"),
];
const NOTHING_LOST: &str =
    "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0";

#[test]
fn ping_pong() {
    for &ends in Ends::all() {
        // Without --mps it has room for 600,000 messages a second, and fails beyond.
        run(ends, "ping-pong -m 64 --mps 2000000", NOTHING_LOST);
    }
}

#[test]
fn other_traffic() {
    for (command, expected) in CASES {
        run(Ends::both(), command, expected);
    }
}

fn run(ends: Ends, command: &str, expected: &str) {
    let place = Place::new(ends);
    let port = ports::free();
    let address = format!("--tcp -i 127.0.0.1 -p {port}");
    let server = place.server("sockperf").args("server").args(&address);
    let server = server.start().listening(port);
    let client = place.client("sockperf").args(command).args(&address);
    let output = client.args("-t 1").run();
    assert!(output.contains(expected), "{command}: {output}");
    server.stop(libc::SIGINT);
    place.check(Rings::Most);
}
