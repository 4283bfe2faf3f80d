//! A program leaves it to us where its connections are: each is measured on kernel TCP, tried on the link, and goes back if
//! the kernel was better.

use std::fs;

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::report::Report;

const SIZE: u64 = 100;

/// One connection, so many round trips; what the client reports, and its log.
fn run(hosts: &Hosts, rounds: u32) -> (Report, String) {
    let server = hosts.own(0, "echo_threads");
    let server = server.args("conns=1 host=:: port=7000").start();
    let server = server.listening(7000);
    let log = hosts.folder().join("client.log");
    let client = hosts.own(1, "echo_client");
    let client = client
        .env("ULSOCK_LOG", "debug")
        .env("ULSOCK_LOG_FILE", &log);
    let address = hosts.host(0).address();
    let client = client.args(&format!("conns=1 rounds={rounds} fixed={SIZE}"));
    client.args(&format!("port=7000 host={address}")).run();
    server.succeed();
    hosts.check_quiet();
    let (report, _) = hosts.host(1).report();
    (report, fs::read_to_string(log).unwrap_or_default())
}

/// How many bytes the client had sent by the kernel each time when it got to the link.
fn beginnings(log: &str) -> Vec<u64> {
    let after = |line: &str| {
        let (_, rest) = line.split_once("is on the link, ")?;
        rest.split_once(' ')?.0.parse().ok()
    };
    log.lines().filter_map(after).collect()
}

/// Both programs can have engines, and the one that connects tries them, when it has measured kernel TCP.
#[test]
fn engines() {
    if kernel_only() {
        return;
    }
    /// Four windows of 64 messages, there and back.
    const MEASURED: u64 = 4 * 32 * SIZE;
    let hosts = Hosts::two().with("ULSOCK_NIC", "measured");
    let (report, log) = run(&hosts, 30_000);
    assert!(report.ring_bytes() > 0, "{report:?}");
    let first = beginnings(&log).first().copied();
    assert!(first >= Some(MEASURED), "{first:?}\n{log}");
}

/// The link is made slow. The connection goes back each time, and is plain until the next trial: none but a plain one is
/// shown to the daemon, and gets rings.
#[test]
fn defeats() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two().with("ULSOCK_NIC", "measured");
    let hosts = hosts.with("ULSOCK_SPIN_US", 0).with("ULSOCK_DRAG", 1_000);
    let (report, log) = run(&hosts, 120_000);
    let count = |text: &str| log.matches(text).count();
    assert!(count("is slower on the link") >= 2, "{log}");
    assert!(count("has a ring pair") >= 2, "{log}");
    assert_eq!(report.reasons.get("slower"), Some(&1), "{report:?}");
    assert!(report.ring_bytes() > 0, "{report:?}");
    assert!(
        report.kernel_bytes() > 10 * report.ring_bytes(),
        "{report:?}"
    );
}
