//! A server in whose process much else goes on: preemption, a profile, the collector all the time, signals, children; and a
//! connection that a child is given. Every byte is checked.

use tests::ends::{Ends, Side};
use tests::go::newest;
use tests::place::{Place, Rings};
use tests::ports;

#[test]
fn much_else_goes_on() {
    let (life, echo) = (newest("life"), newest("echo"));
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let port = ports::free();
        let server = place.program(Side::Server, &life);
        let server = server.args(&format!("serve 127.0.0.1:{port}")).piped();
        let server = server.start().listening(port);
        let client = place.program(Side::Client, &echo);
        let text = client.args(&format!("call 127.0.0.1:{port} 4 200")).run();
        assert!(text.starts_with("800 rounds"), "{text}");
        let told = server.succeed();
        // The last line: what there was of each.
        let counts = told.lines().last().unwrap_or_default();
        let numbers: Vec<u64> = counts.split(' ').filter_map(|it| it.parse().ok()).collect();
        assert_eq!(numbers.len(), 5, "{told}");
        assert!(numbers.iter().all(|number| *number > 0), "{told}");
        place.check(Rings::Most);
    }
}

#[test]
fn a_child_is_given_the_connection() {
    let (life, echo) = (newest("life"), newest("echo"));
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let port = ports::free();
        let server = place.program(Side::Server, &echo);
        let server = server.args(&format!("serve 127.0.0.1:{port}")).piped();
        let server = server.start().listening(port);
        let client = place.program(Side::Client, &life);
        let text = client.args(&format!("hand 127.0.0.1:{port}")).run();
        assert_eq!(text, "handed\n");
        server.succeed();
        place.check(Rings::Some);
    }
}
