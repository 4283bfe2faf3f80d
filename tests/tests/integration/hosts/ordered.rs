//! Orders (`ulsock ctl`) to connections on the link to another host.

use serde_json::Value;
use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};
use tests::{top, wait};

use super::transfer::Transfer;

const CONNECTIONS: usize = 3;
const TIMES: usize = 4;

/// What one host's end says of an order; both hosts are one test's, but each sees its own programs alone.
fn ctl(hosts: &Hosts, host: usize, words: &str) -> Value {
    let program = hosts.own(host, "ulsock").without("LD_PRELOAD");
    let output = program.args("ctl").args(words).arg("--json").run();
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error} in {output}"))
}

fn carriers(hosts: &Hosts, host: usize) -> Vec<[String; 3]> {
    let rows = top::rows(hosts.host(host).run_dir());
    let rows = rows.into_iter();
    rows.map(|row| [row.carrier_tx, row.carrier_rx, row.reason])
        .collect()
}

fn are(hosts: &Hosts, host: usize, carrier: &str) -> bool {
    let rows = carriers(hosts, host);
    let is_there = |row: &[String; 3]| row[0] == carrier && row[1] == carrier;
    rows.len() == CONNECTIONS && rows.iter().all(is_there)
}

/// In mid-stream, by one end alone, whichever: the other follows by the record in the kernel's stream.
#[test]
fn links_are_left_and_entered_again() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two().eager();
    let mut transfer = Transfer::start(&hosts, &format!("style=echo conns={CONNECTIONS}"));
    for time in 0..TIMES {
        let host = time % 2;
        wait::until("all are on the link", || are(&hosts, host, "nic"));
        let answer = ctl(&hosts, host, "demote --program carry");
        assert_eq!(answer["connections"], CONNECTIONS, "{answer}");
        wait::until("all are on the kernel", || {
            (0..2).all(|host| are(&hosts, host, "kernel"))
        });
        transfer.moves(100_000);
        let rows = carriers(&hosts, host);
        assert!(rows.iter().all(|row| row[2] == "ordered"), "{rows:?}");
        assert!(are(&hosts, 1 - host, "kernel"), "{rows:?}");
        ctl(&hosts, host, "promote --program carry");
        wait::until("all are on the link again", || are(&hosts, 1 - host, "nic"));
        transfer.moves(100_000);
    }
    let events = hosts.own(0, "ulsock").without("LD_PRELOAD");
    let events = events.args("events --json --once").run();
    let left = events
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let mut left = left.filter(|it: &Value| it["event"] == "demoted");
    assert!(left.any(|it| it["reason"] == "ordered"), "{events}");
    transfer.finish();
    hosts.check(Nic::Some);
}
