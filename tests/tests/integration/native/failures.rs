//! Ends of connections that nobody has asked for: the error is the kernel's, on rings too.

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::ports;

use super::{HOWS, native};

/// The client waits for what does not come; `how_it_ends` makes the server go. What the client says then.
fn wait_for_end(ends: Ends, how: &str, ordinary: bool) -> String {
    let place = Place::new(ends).eager();
    let port = ports::free();
    let server = match ordinary {
        true => place.own(Side::Server, "echo_threads").args("conns=1"),
        false => native(&place, Side::Server, "serve", how),
    };
    let server = server.args(&format!("port={port}")).start().listening(port);
    let client = native(&place, Side::Client, "wait", how);
    let mut client = client.args(&format!("port={port} rounds=200")).start();
    client.prints("waits");
    server.stop(libc::SIGKILL);
    let said = client.succeed();
    said.trim_start_matches("waits\n").to_owned()
}

/// The kernel ends the connection of a process that is killed, with a FIN if it has read everything.
#[test]
fn a_peer_is_killed() {
    for ends in [Ends::both(), Ends::Kernel] {
        for how in HOWS {
            for ordinary in [false, true] {
                let end = wait_for_end(ends, how, ordinary);
                assert_eq!(end, "end after 0\n", "{ends:?} {how}");
            }
        }
    }
}

#[test]
fn a_peer_resets() {
    for ends in [Ends::both(), Ends::Kernel] {
        for how in HOWS {
            let place = Place::new(ends).eager();
            let port = ports::free();
            let server = native(&place, Side::Server, "serve", how).args(&format!("port={port}"));
            let server = server.start().listening(port);
            let client = native(&place, Side::Client, "reset", how);
            client.args(&format!("port={port} rounds=200")).run();
            let said = server.wait();
            assert!(
                said.errors.contains("ConnectionReset"),
                "{ends:?} {how}: {}",
                said.errors
            );
        }
    }
}

#[test]
fn nobody_listens() {
    for how in ["blocking", "tasks"] {
        let place = Place::new(Ends::both());
        let client = native(&place, Side::Client, "call", how);
        let client = client.args(&format!("port={}", ports::free())).start();
        let said = client.wait();
        assert!(said.errors.contains("ConnectionRefused"), "{}", said.errors);
    }
}
