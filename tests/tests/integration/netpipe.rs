//! NetPIPE over TCP: ping-pong of every size around the powers of two, both ways at once, and its
//! own integrity check. (Its one-way stream reconnects before the receiver listens again.)

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::ports;

/// Options of both ends.
const CASES: &[&str] = &[
    "-u 1000000 -n 30",
    "-u 100000 -n 30 -2",
    "-u 100000 -n 30 -i",
];

#[test]
fn sizes() {
    for &ends in Ends::all() {
        for options in CASES {
            let place = Place::new(ends);
            let port = ports::free();
            let options = format!("{options} -P {port}");
            let receiver = place.server("NPtcp").args(&options);
            let receiver = receiver.directory(place.folder()).start().listening(port);
            let sender = place.client("NPtcp").args("-h 127.0.0.1").args(&options);
            let finished = sender.directory(place.folder()).start().wait();
            assert!(finished.status.success(), "{options}: {}", finished.status);
            let table = finished.errors;
            assert!(!table.contains("failed"), "{options}: {table}");
            assert!(
                table.contains("65537 bytes") || table.contains("65536 bytes"),
                "{table}"
            );
            receiver.succeed();
            place.check(Rings::Most);
        }
    }
}
