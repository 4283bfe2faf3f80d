//! iperf3 in each direction, and in both at once.

use serde_json::Value;
use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::ports;

/// Less than was sent: the receiver stops counting when the sender's control message comes.
const LEAST_BYTES: u64 = 50_000_000;

/// Options of the client, and the sums of the result that count received bytes. With `--bidir` the
/// first direction that has sent its amount ends the other.
const CASES: &[(&str, &[&str])] = &[
    ("-n 300M", &["sum_received"]),
    ("-n 300M -R", &["sum_received"]),
    ("-n 300M -P 4", &["sum_received"]),
    (
        "-t 1 --bidir",
        &["sum_received", "sum_received_bidir_reverse"],
    ),
];

#[test]
fn directions() {
    for &ends in Ends::all() {
        for (options, sums) in CASES {
            let place = Place::new(ends);
            let port = ports::free();
            let server = place.server("iperf3").args(&format!("-s -1 -p {port}"));
            let server = server.start().listening(port);
            let client = place.client("iperf3");
            let options = format!("-c 127.0.0.1 -p {port} -J {options}");
            let output = client.args(&options).run();
            let result: Value = serde_json::from_str(&output).expect("iperf3's JSON");
            for sum in *sums {
                let received = result["end"][sum]["bytes"].as_u64();
                assert!(received > Some(LEAST_BYTES), "{sum} is {received:?}");
            }
            server.succeed();
            place.check(Rings::Most);
        }
    }
}
