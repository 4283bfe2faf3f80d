//! What accelerated connections cost in memory, and that it is given back.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::{ports, procfs};

const SEGMENT: &str = "/memfd:ulsock";

/// Connections that have carried only small messages: both processes with all that they have.
#[test]
fn idle_connections_are_small() {
    const CONNECTIONS: u64 = 1000;
    const MOST_KIB: u64 = 50;
    let place = Place::new(Ends::both());
    let port = ports::free();
    let mut server = place
        .own(Side::Server, "echo_epoll")
        .args(&format!("port={port}"))
        .piped()
        .start()
        .listening(port);
    // Small as they are, they go around the smallest ring several times.
    let mut client = place
        .own(Side::Client, "idle")
        .args(&format!("port={port} conns={CONNECTIONS} rounds=1100"))
        .args("wait=epoll")
        .start();
    client.prints("idle");
    let used = [server.pid(), client.pid()].map(procfs::proportional_kib);
    let each = used.iter().sum::<u64>() / CONNECTIONS;
    assert!(each <= MOST_KIB, "{each} KiB per connection: {used:?}");
    server.tell("poke\n");
    client.succeed();
    server.succeed();
    place.check(Rings::Most);
}

/// What a process shares with peers that are gone does not stay mapped.
#[test]
fn segments_of_dead_peers_go() {
    let place = Place::new(Ends::both()).at_once();
    let port = ports::free();
    let server = place
        .own(Side::Server, "echo_epoll")
        .args(&format!("port={port}"))
        .piped()
        .start()
        .listening(port);
    for _ in 0..8 {
        place
            .own(Side::Client, "echo_client")
            .args(&format!("port={port} conns=1 rounds=3"))
            .run();
    }
    // The last peer's, and its page of waiters; and our own.
    let (mappings, _) = procfs::mapped_kib(server.pid(), SEGMENT);
    assert!(mappings <= 6, "{mappings} mappings of shared memory");
    server.succeed();
    place.check(Rings::Some);
}
