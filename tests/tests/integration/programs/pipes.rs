//! socat and nc as pipes between two shells; every byte of the stream is checked by its position.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::{Program, built};

const GIGABYTE: u64 = 1_000_000_000;

/// What a pipe consists of; PORT, EMIT and CHECK are replaced.
struct Case {
    server: &'static str,
    client: &'static str,
    bytes: u64,
    /// The side whose output is the check's.
    checks: Side,
    rings: Rings,
}

#[test]
fn one_way_by_nc() {
    run(&Case {
        server: "nc -l 127.0.0.1 PORT | CHECK",
        client: "EMIT | nc -N 127.0.0.1 PORT",
        bytes: GIGABYTE,
        checks: Side::Server,
        rings: Rings::Most,
    });
}

#[test]
fn one_way_by_socat() {
    run(&Case {
        server: "socat -u TCP-LISTEN:PORT,reuseaddr STDOUT | CHECK",
        client: "EMIT | socat -u STDIN TCP:127.0.0.1:PORT",
        bytes: GIGABYTE,
        checks: Side::Server,
        rings: Rings::Most,
    });
}

#[test]
fn from_the_server_over_ipv6() {
    run(&Case {
        server: "EMIT | socat -u STDIN TCP6-LISTEN:PORT,reuseaddr",
        client: "nc -d ::1 PORT | CHECK",
        bytes: GIGABYTE / 4,
        checks: Side::Client,
        rings: Rings::Most,
    });
}

/// 4096 bytes at a time: socat is the pipe's only reader, so a write that does not fit into the one
/// page that select promised would wait for ever, on any carrier.
#[test]
fn there_and_back() {
    run(&Case {
        server: "socat -b 4096 TCP-LISTEN:PORT,reuseaddr PIPE",
        client: "EMIT | socat -t 30 STDIO TCP:127.0.0.1:PORT | CHECK",
        bytes: GIGABYTE / 4,
        checks: Side::Client,
        rings: Rings::Most,
    });
}

/// cat inherits the TCP socket besides its own: two holders.
#[test]
fn held_by_a_child_too() {
    run(&Case {
        server: "socat TCP-LISTEN:PORT,reuseaddr EXEC:cat",
        client: "EMIT | socat -t 30 STDIO TCP:127.0.0.1:PORT | CHECK",
        bytes: GIGABYTE / 4,
        checks: Side::Client,
        rings: Rings::Any,
    });
}

#[test]
fn socket_as_stdio_of_another_program() {
    run(&Case {
        server: "socat TCP-LISTEN:PORT,reuseaddr EXEC:cat,nofork",
        client: "EMIT | nc -N 127.0.0.1 PORT | CHECK",
        bytes: GIGABYTE / 10,
        checks: Side::Client,
        rings: Rings::Any,
    });
}

fn run(case: &Case) {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        let port = ports::free();
        let server = shell(place.server("bash"), case, case.server, port);
        let server = server.start().listening(port);
        let client = shell(place.client("bash"), case, case.client, port).run();
        let server = server.succeed();
        let output = if case.checks == Side::Server {
            server
        } else {
            client
        };
        assert!(output.contains("all in their places"), "{output}");
        place.check(case.rings);
    }
}

fn shell(program: Program, case: &Case, line: &str, port: u16) -> Program {
    let own = built("pattern").display().to_string();
    let line = line
        .replace("PORT", &port.to_string())
        .replace("EMIT", &format!("{own} emit bytes={}", case.bytes))
        .replace("CHECK", &format!("{own} check bytes={}", case.bytes));
    program.args("-c").arg(format!("set -o pipefail; {line}"))
}
