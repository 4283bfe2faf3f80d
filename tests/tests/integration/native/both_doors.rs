//! A native program that is preloaded, too: see `src/bin/both_doors.rs`.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

/// The two know nothing of each other, and neither is in the other's way.
#[test]
fn both_doors() {
    for ends in [Ends::both(), Ends::Kernel] {
        let place = Place::new(ends).eager();
        let port = ports::free();
        let server = place.own(Side::Server, "echo_threads").args("conns=8");
        let server = server.args(&format!("port={port}")).start().listening(port);
        let client = place.own(Side::Client, "both_doors");
        let client = match place.ends().covers(Side::Client) {
            true => client,
            false => client.env("ULSOCK", "0"),
        };
        let said = client.args(&format!("port={port} rounds=200")).run();
        assert_eq!(said, "ok\n");
        server.succeed();
        place.check(Rings::Some);
    }
}
