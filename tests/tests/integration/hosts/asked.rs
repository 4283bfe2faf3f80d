//! A server sleeps and watches many connections, whose next call is the client's: it must wake up when it is asked whether
//! they shall go to the link. Else each of them waits in vain, and goes on by the kernel.

use std::fs;

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};

use super::python;

const CONNECTIONS: u64 = 17;

/// Microseconds: as long as a set is held for each member without news.
const LATE: u32 = 300;

fn run(way: &str) {
    let hosts = Hosts::two().eager();
    call(&hosts, way, CONNECTIONS, 1);
    if kernel_only() {
        return;
    }
    let (report, _) = hosts.host(1).report();
    let log = fs::read_to_string(hosts.folder().join("client.log")).expect("log");
    let in_vain = log.matches("does not get to the link").count() as u64;
    // Some may have waited for a busy machine; for a server that sleeps on, all but the first do.
    let most = CONNECTIONS / 2;
    assert!(
        report.nic > most && in_vain < most,
        "{way}: {in_vain} in vain, {report:?}\n{log}"
    );
}

/// So many threads of the client ask at the same time.
fn call(hosts: &Hosts, way: &str, connections: u64, threads: u32) {
    let python = |host| python(hosts, host, "asked.py");
    let server = python(0).args(&format!("serve 7000 {connections} {way}"));
    let server = server.start().listening(7000);
    let address = hosts.host(0).address();
    let client = python(1).args(&format!("call {address} 7000 {connections} {threads}"));
    let log = hosts.folder().join("client.log");
    let client = client
        .env("ULSOCK_LOG", "debug")
        .env("ULSOCK_LOG_FILE", &log);
    client.run();
    server.succeed();
    hosts.check_quiet();
}

#[test]
fn reading() {
    run("threads");
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

/// Threads of the server hold their sets and are asked at the same time: none must wait for another's set.
#[test]
fn in_many_sets_at_once() {
    const CONNECTIONS: u64 = 65;
    let hosts = Hosts::two().eager().with("ULSOCK_LATE", LATE);
    call(&hosts, "sets", CONNECTIONS, 4);
    hosts.check(Nic::Some);
}
