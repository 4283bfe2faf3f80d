//! Engines inside the programs, on queues that the daemons lease to them.

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};
use tests::program::Program;
use tests::wait;

use super::transfer::Transfer;

fn hosts() -> Hosts {
    Hosts::two().with("ULSOCK_NIC", "inline")
}

/// The daemons have leased a queue on each host.
fn check_leased(hosts: &Hosts) {
    for host in 0..2 {
        let said = hosts.nicd_says(host);
        let leased = said.contains("has UDP port");
        assert!(leased || kernel_only(), "host {host}: {said}");
    }
}

/// Sends `bytes` and is gone; the reader has them all, and then their end.
fn leave(how: &str, bytes: usize) {
    let hosts = hosts();
    // The daemon takes up to some ten milliseconds to open a queue, beside others.
    let arguments = format!("port=7000 bytes={bytes} rounds=30000");
    let reader = hosts
        .own(0, "leave")
        .args("listen host=::")
        .args(&arguments);
    let reader = reader.start().listening(7000);
    let writer = hosts.own(1, "leave").args("connect").args(&arguments);
    let address = hosts.host(0).address();
    let writer = writer.args(&format!("how={how} host={address}"));
    writer.start().wait();
    reader.succeed();
    check_leased(&hosts);
}

#[test]
fn leaving() {
    for how in ["exit", "_exit", "exec", "exec-keeping"] {
        leave(how, 40_000);
        leave(how, 3_000_000);
    }
}

/// What it had written is in the rings of an engine that died with it: the daemon says it.
#[test]
fn killed() {
    leave("kill", 10);
    leave("kill", 60_000);
}

#[test]
fn daemons_killed() {
    for style in ["style=stream conns=2", "style=echo conns=4"] {
        let hosts = hosts();
        let mut transfer = Transfer::start(&hosts, style);
        check_leased(&hosts);
        hosts.kill_nicd(0);
        transfer.moves(500_000);
        hosts.kill_nicd(1);
        hosts.start_nicd(0);
        hosts.start_nicd(1);
        transfer.moves(500_000);
        transfer.finish();
        hosts.check(Nic::Some);
    }
}

fn ping_pong(hosts: &Hosts, prepare: fn(Program) -> Program) {
    let server = prepare(hosts.program(0, "redis-server"));
    let server = server.args("--port 6379 --protected-mode no --appendonly no --save");
    let server = server.arg("").directory(hosts.folder()).start();
    let server = server.listening(6379);
    let address = hosts.host(0).address();
    for options in ["-c 1 -n 20000", "-c 20 -n 20000"] {
        let client = prepare(hosts.program(1, "redis-benchmark"));
        client
            .args(&format!("-h {address} -q -t incr {options}"))
            .run();
    }
    let client = hosts
        .plain(1, "redis-cli")
        .args(&format!("-h {address} get counter:__rand_int__"));
    assert_eq!(client.run().trim_end(), "40000");
    server.stop(libc::SIGTERM);
}

#[test]
fn redis() {
    let hosts = hosts();
    ping_pong(&hosts, |program| program);
    check_leased(&hosts);
    hosts.check(Nic::Most);
}

/// Whoever may not have a queue is served by the daemon, which says so.
#[test]
fn users_that_are_not_trusted() {
    let hosts = hosts();
    ping_pong(&hosts, |program| program.user("nobody"));
    let said = hosts.nicd_says(0);
    let refused = said.contains("is not in --lease-to");
    assert!(refused || kernel_only(), "{said}");
    assert!(!said.contains("has UDP port"), "{said}");
    hosts.check(Nic::Some);
}

/// A server forks, to save its data, while its engine is busy: the child has no part in that.
#[test]
fn forks() {
    let hosts = hosts();
    let server = hosts.program(0, "redis-server");
    let server = server.args("--port 6379 --protected-mode no --appendonly no");
    let server = server.directory(hosts.folder()).start().listening(6379);
    let address = hosts.host(0).address();
    let client = hosts.program(1, "redis-benchmark");
    let client = client.args(&format!("-h {address} -q -t incr -c 4 -n 60000"));
    let client = client.start();
    let ask = |words: &str| hosts.plain(0, "redis-cli").args(words).run();
    let counter = || {
        ask("get counter:__rand_int__")
            .trim_end()
            .parse()
            .unwrap_or(0)
    };
    for save in 1..=5 {
        wait::until("it has counted on", || counter() >= save * 8000);
        ask("bgsave");
    }
    client.succeed();
    assert_eq!(counter(), 60_000);
    server.stop(libc::SIGTERM);
    check_leased(&hosts);
    hosts.check(Nic::Some);
}
