//! When a connection is proposed for the link, and when it is not.

use std::fs;

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::Running;
use tests::top;

use super::python;

fn start(hosts: &Hosts, serve: &str, call: &str) -> [Running; 2] {
    let python = |host| python(hosts, host, "proposals.py");
    let server = python(0).args(&format!("serve 7000 {serve}"));
    let server = server.start().listening(7000);
    let address = hosts.host(0).address();
    let client = python(1).args(&format!("call {address} 7000 {call}"));
    let log = hosts.folder().join("client.log");
    let client = client.env("ULSOCK_LOG", "debug");
    let client = client.env("ULSOCK_LOG_FILE", log).piped();
    [server, client.start()]
}

/// Which reason an end shows while it lives, and in its report.
const REASONS: [&str; 2] = ["no-proposal", "bulk"];

fn bulk(then: &str) -> Hosts {
    let hosts = Hosts::two().eager();
    let [server, mut client] = start(&hosts, "answer", "bulk");
    client.prints("bulk");
    if !kernel_only() {
        for (host, reason) in REASONS.iter().enumerate() {
            let rows = top::rows(hosts.host(host).run_dir());
            let reasons: Vec<_> = rows.iter().map(|row| row.reason.as_str()).collect();
            assert_eq!(reasons, [*reason], "{rows:?}");
        }
    }
    client.tell(then);
    client.succeed();
    server.succeed();
    hosts.check_quiet();
    hosts
}

#[test]
fn bulk_says_so() {
    let hosts = bulk("enough\n");
    if kernel_only() {
        return;
    }
    for (host, reason) in REASONS.iter().enumerate() {
        let (report, _) = hosts.host(host).report();
        assert_eq!(report.nic, 0, "{report:?}");
        assert_eq!(report.reasons.get(*reason), Some(&1), "{report:?}");
    }
}

#[test]
fn what_follows_bulk_goes_by_the_link() {
    let hosts = bulk("less\n");
    if kernel_only() {
        return;
    }
    for host in [0, 1] {
        let (report, _) = hosts.host(host).report();
        assert_eq!(report.nic, 1, "{report:?}");
        assert!(report.reasons.is_empty(), "{report:?}");
    }
}

/// The other end talks and does not listen, so each proposal is in vain: the pause before the next one is 10 ms, and
/// doubles each time.
#[test]
fn in_vain() {
    let hosts = Hosts::two().eager();
    let [server, client] = start(&hosts, "talk", "talk");
    let took = client.succeed();
    server.succeed();
    hosts.check_quiet();
    if kernel_only() {
        return;
    }
    let took: u32 = took.trim_end().parse().expect("milliseconds");
    let log = fs::read_to_string(hosts.folder().join("client.log")).expect("log");
    let tries = log.matches("does not get to the link").count() as u32;
    let most = 1 + (took / 10 + 1).ilog2();
    assert!(
        (3..=most).contains(&tries),
        "{tries} in {took} ms, not 3 to {most}\n{log}"
    );
}

/// A sender that never reads has heard nothing of the peer after a fail-over, unless its sends look for the peer's record:
/// without it [F2] forbids the next proposal.
#[test]
fn a_stream_without_answers_comes_back() {
    let hosts = Hosts::two().eager();
    let [server, mut client] = start(&hosts, "listen", "stream");
    for host in [0, 1, 1, 0] {
        hosts.wait_until_served(1);
        match host {
            0 => hosts.kill_nicd(host),
            _ => hosts.stop_nicd(host),
        }
        hosts.start_nicd(host);
    }
    hosts.wait_until_served(1);
    client.tell("enough\n");
    client.succeed();
    server.succeed();
    hosts.check_quiet();
}
