//! Daemons with several engines: connections spread over them, and the end of one while a transfer goes on loses no
//! byte.

use tests::ends::kernel_only;
use tests::hosts::{EngineStatus, Hosts, Nic};
use tests::wait;

use super::transfer::Transfer;

const STYLES: [&str; 2] = ["style=stream conns=4", "style=echo conns=4"];
const MORE: u64 = 500_000;

fn two() -> Hosts {
    let hosts = Hosts::two_with_engines([2, 2]);
    hosts.wait_for_engines(2);
    hosts
}

fn has_connections(engine: &EngineStatus) -> bool {
    engine.runs && engine.connections > 0
}

/// A stream may stay on the kernel; echoes do not.
fn wait_until_spread(hosts: &Hosts, style: &str) {
    if !kernel_only() && style.contains("echo") {
        wait::until("connections on both engines of both", || {
            (0..2).all(|host| hosts.engines(host).iter().all(has_connections))
        });
    }
}

#[test]
fn all_carry() {
    for style in STYLES {
        let hosts = two();
        let mut transfer = Transfer::start(&hosts, style);
        wait_until_spread(&hosts, style);
        transfer.moves(MORE);
        transfer.finish();
        hosts.check(Nic::Some);
    }
}

#[test]
fn one_has_more() {
    for engines in [[1, 2], [2, 1]] {
        let hosts = Hosts::two_with_engines(engines);
        hosts.wait_for_engines(1);
        let mut transfer = Transfer::start(&hosts, STYLES[1]);
        transfer.moves(MORE);
        hosts.wait_until_served(4);
        transfer.finish();
        hosts.check(Nic::Some);
    }
}

/// The thread of an engine ends in the middle, without a word to anybody: its connections go on by kernel TCP, and come
/// to the other engine.
#[test]
fn one_ends() {
    for style in STYLES {
        for host in 0..2 {
            let hosts = two();
            let mut transfer = Transfer::start(&hosts, style);
            wait_until_spread(&hosts, style);
            hosts.signal_nicd(host, libc::SIGUSR1);
            transfer.moves(MORE);
            if !kernel_only() {
                wait::until("its end", || !hosts.engines(host)[1].runs);
            }
            if style.contains("echo") {
                hosts.wait_until_served(4);
            }
            transfer.finish();
            hosts.check(Nic::Some);
        }
    }
}
