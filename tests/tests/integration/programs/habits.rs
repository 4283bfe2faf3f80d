//! Our own small programs, each for one habit of servers: threads, forking, sharing a connection,
//! sending before receiving, talking to oneself.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

use crate::script;

/// A server and a client of ours with their arguments; both also get the port.
struct Case {
    server: &'static str,
    client: &'static str,
    host: &'static str,
    rings: Rings,
}

fn run(case: &Case) {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        let port = ports::free();
        let start = |side, words: &str| {
            let (name, arguments) = words.split_once(' ').expect("program and arguments");
            let program = place.own(side, name).args(arguments);
            program
                .args(&format!("host={} port={port}", case.host))
                .start()
        };
        let server = start(Side::Server, case.server).listening(port);
        start(Side::Client, case.client).succeed();
        server.succeed();
        place.check(case.rings);
    }
}

/// A server of multipath TCP, as Go's are since 1.24. A client of plain TCP gets a plain connection, which has rings.
#[test]
fn listening_by_several_paths() {
    for &ends in Ends::all() {
        for (client, rings, said) in [
            ("call", Rings::Most, "by one\n"),
            ("path", Rings::Any, "by several paths\n"),
        ] {
            let place = Place::new(ends);
            let port = ports::free();
            let start = |side, role: &str| {
                let python = place.program(side, "/usr/bin/python3");
                let python = python.arg(script("several_paths.py")).arg(role);
                python.arg(port.to_string()).start()
            };
            let server = start(Side::Server, "serve").listening(port);
            assert_eq!(start(Side::Client, client).succeed(), "ok\n");
            assert_eq!(server.succeed(), said);
            place.check(rings);
            if rings == Rings::Any {
                assert_eq!(place.report(Side::Client).0.ring_bytes(), 0);
            }
        }
    }
}

#[test]
fn echo_200_connections_with_threads() {
    run(&Case {
        server: "echo_threads conns=200",
        client: "echo_client conns=200 rounds=100",
        host: "127.0.0.1",
        rings: Rings::Most,
    });
}

#[test]
fn echo_over_ipv6() {
    run(&Case {
        server: "echo_threads conns=10",
        client: "echo_client conns=10 rounds=500",
        host: "::1",
        rings: Rings::Most,
    });
}

#[test]
fn fork_per_connection() {
    run(&Case {
        server: "fork_echo conns=20",
        client: "echo_client conns=20 rounds=200",
        host: "127.0.0.1",
        rings: Rings::Most,
    });
}

#[test]
fn shared_then_the_child_leaves() {
    run(&Case {
        server: "share turns=50 message=100 leave=child",
        client: "echo_client conns=1 rounds=3000 fixed=100",
        host: "127.0.0.1",
        rings: Rings::Most,
    });
}

#[test]
fn shared_then_the_parent_leaves() {
    run(&Case {
        server: "share turns=50 message=100 leave=parent",
        client: "echo_client conns=1 rounds=3000 fixed=100",
        host: "127.0.0.1",
        rings: Rings::Most,
    });
}

#[test]
fn shared_then_the_child_is_killed() {
    run(&Case {
        server: "share turns=50 message=100 leave=killed",
        client: "echo_client conns=1 rounds=3000 fixed=100",
        host: "127.0.0.1",
        rings: Rings::Any,
    });
}

#[test]
fn both_send_before_they_receive() {
    run(&Case {
        server: "both_first listen bytes=3000000 times=5",
        client: "both_first connect bytes=3000000 times=5",
        host: "127.0.0.1",
        rings: Rings::Some,
    });
}

#[test]
fn one_thread_talks_to_itself() {
    let place = Place::new(Ends::both()).eager();
    let program = place.own(Side::Server, "self_talk");
    let arguments = format!("port={} rounds=2000 bytes=3000000", ports::free());
    program.args(&arguments).run();
    let (report, _) = place.report(Side::Server);
    if place.ends() == Ends::Both {
        assert!(report.upgraded > 0 && report.ring_bytes() > 0, "{report:?}");
    }
    place.check_quiet();
}
