//! What accelerated connections cost in memory, and that it is given back.

use tests::ends::{Ends, Side, kernel_only};
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

/// Rings that a burst has made large are small again after a while, and can grow again: the memory
/// that both processes share, while they sleep in poll, in a receive, in epoll_wait.
#[test]
fn rings_shrink_after_a_burst() {
    const BYTES: usize = 3 << 20;
    const LARGE_KIB: u64 = 2 << 10;
    const SMALL_KIB: u64 = 100;
    if kernel_only() {
        return;
    }
    for server in ["echo_threads", "echo_epoll"] {
        let place = Place::new(Ends::Both);
        let port = ports::free();
        let server = place
            .own(Side::Server, server)
            .args(&format!("port={port} conns=1"))
            .piped()
            .start()
            .listening(port);
        let mut client = place
            .own(Side::Client, "burst")
            .args(&format!("port={port} bytes={BYTES}"))
            .piped()
            .start();
        client.prints("ready");
        for bursts in 1..=3 {
            client.tell("\n");
            let (idle, mut most) = ("idle\n".repeat(bursts), 0);
            client.until("the burst is over", |client| {
                most = most.max(shared_kib([server.pid(), client.pid()]));
                client.output().contains(&idle)
            });
            assert!(most >= LARGE_KIB, "only {most} KiB in burst {bursts}");
            client.until("the rings are small", |client| {
                shared_kib([server.pid(), client.pid()]) <= SMALL_KIB
            });
        }
        client.succeed();
        server.succeed();
        place.check(Rings::Some);
    }
}

fn shared_kib(pids: [u32; 2]) -> u64 {
    pids.map(|pid| procfs::mapped_kib(pid, SEGMENT).1)
        .iter()
        .sum()
}
