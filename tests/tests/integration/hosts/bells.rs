//! A thread that waits for the link gives the daemon a bell first. If the daemon has no room for it at that moment, the
//! thread must find what comes all the same.

use tests::ends::kernel_only;
use tests::hosts::Hosts;

use super::python;

const CONNECTIONS: u64 = 48;
/// With eight threads each: more bells than a daemon that does not read has room for.
const ENOUGH: u64 = 40;

fn run(way: &str) {
    let hosts = Hosts::two().eager();
    let server = python(&hosts, 0, "bells.py").args(&format!("serve 7000 {CONNECTIONS}"));
    let server = server.start().listening(7000);
    let address = hosts.host(0).address();
    let client = python(&hosts, 1, "bells.py");
    let client = client.args(&format!("call {address} 7000 {CONNECTIONS} {way}"));
    let mut client = client.piped().start();
    client.prints("used");
    hosts.signal_nicd(1, libc::SIGSTOP);
    client.tell("wait\n");
    client.prints("asleep");
    hosts.signal_nicd(1, libc::SIGCONT);
    client.tell("ask\n");
    client.succeed();
    server.succeed();
    hosts.check_quiet();
    let (report, _) = hosts.host(1).report();
    assert!(kernel_only() || report.nic >= ENOUGH, "{way}: {report:?}");
}

#[test]
fn reading() {
    run("recv");
}

#[test]
fn polling() {
    run("poll");
}
