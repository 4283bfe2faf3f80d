//! 20,000 accelerated connections in one process do not exhaust its mappings (the kernel allows
//! 65,530, and the program's own malloc needs some). Where a process may not have so many fds, and may
//! not raise that limit, as many as it may. And limits of locked memory.

use crate::same_as_kernel;
use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::{ports, procfs};

const CONNECTIONS: u64 = 20_000;
const LEAST_CONNECTIONS: u64 = 19_000;
const MAPPINGS: usize = 2000;

/// The sparse memory of the rings is not filled, nor counted, when a program locks its memory.
#[test]
fn locked_memory() {
    same_as_kernel("locked", "", &["auto"]);
}

#[test]
fn twenty_thousand_connections() {
    let place = Place::new(Ends::both());
    let port = ports::free();
    let server = place
        .own(Side::Server, "echo_epoll")
        .args(&format!(
            "host=0.0.0.0 port={port} fds={}",
            CONNECTIONS + 500
        ))
        .piped()
        .start()
        .listening(port);
    let mut client = place
        .own(Side::Client, "many")
        .args(&format!("port={port} conns={CONNECTIONS} rounds=20"))
        .limit(240)
        .piped()
        .start();
    client.prints("blocks allocated");
    for program in [&server, &client] {
        let mappings = procfs::mappings(program.pid());
        assert!(mappings < MAPPINGS, "{mappings} mappings");
    }
    let connections = number(&client.succeed(), "connections ");
    assert!(connections >= LEAST_CONNECTIONS, "{connections}");
    server.succeed();
    place.check(Rings::Some);
    if place.ends() == Ends::Both {
        for side in [Side::Server, Side::Client] {
            let (report, _) = place.report(side);
            assert!(
                report.upgraded >= connections * 95 / 100,
                "{side:?}: {report:?}"
            );
        }
    }
}

/// The number after the last `what`.
fn number(output: &str, what: &str) -> u64 {
    let (_, rest) = output.rsplit_once(what).expect("the word");
    let number = rest.split_whitespace().next();
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}
