//! A program that forks: see `src/bin/native/fork.rs`.

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::ports;

use super::native;

#[test]
fn parent_and_child_go_on() {
    for ends in [Ends::both(), Ends::Kernel] {
        for how in ["blocking", "blocking_in_place"] {
            let place = Place::new(ends).eager();
            let port = ports::free();
            let server = place.own(Side::Server, "echo_threads").args("conns=3");
            let server = server.args(&format!("port={port}")).start().listening(port);
            let client = native(&place, Side::Client, "fork", how);
            let said = client
                .args(&format!("port={port} rounds=200 max=5000"))
                .run();
            assert_eq!(said, "ok\n");
            server.succeed();
            place.check_quiet();
        }
    }
}
