//! Every wait of the server arms its tripwires late (`ULSOCK_LATE`): what happens between its last look and the arming
//! must not be missed. It happens after each answer: the client says something more, or ends the stream.

use tests::hosts::{Hosts, Nic};

use super::python;

const CONNECTIONS: u32 = 4;

/// Microseconds: longer than the client takes for its next step.
const LATE: u32 = 3_000;

fn run(way: &str) {
    let hosts = Hosts::two().eager();
    let python = |host| python(&hosts, host, "late.py");
    let server = python(0).args(&format!("serve 7000 {CONNECTIONS} {way}"));
    let server = server.env("ULSOCK_LATE", LATE.to_string());
    let server = server.start().listening(7000);
    let address = hosts.host(0).address();
    let client = python(1).args(&format!("call {address} 7000 {CONNECTIONS}"));
    client.run();
    server.succeed();
    hosts.check(Nic::Some);
}

#[test]
fn blocking() {
    run("read");
}

#[test]
fn polling() {
    run("poll");
    run("select");
}

#[test]
fn in_sets() {
    run("epoll");
    run("edge");
}
