//! A daemon has a port only while a connection needs it: an open one costs the kernel something for every frame.

use std::thread::sleep;
use std::time::Duration;

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};
use tests::program::built;

use super::transfer::Transfer;

const ECHO: &str = "style=echo conns=4";
const MORE: u64 = 200_000;

/// Both daemons have opened theirs so many times.
fn opened(hosts: &Hosts) -> [usize; 2] {
    [0, 1].map(|host| hosts.nicd_says(host).matches("serving interface").count())
}

fn carried(hosts: &Hosts) {
    let mut transfer = Transfer::start(hosts, ECHO);
    transfer.moves(MORE);
    hosts.wait_until_served(4);
    assert!(
        (0..2).all(|host| hosts.has_port(host)),
        "carried by no port"
    );
    transfer.finish();
}

/// All connections that come after a rest get to the link, as those before.
#[test]
fn ports_come_and_go() {
    if kernel_only() {
        return;
    }
    for hosts in [Hosts::two, Hosts::two_by_ipv6] {
        let hosts = hosts();
        for round in 1..=3 {
            hosts.wait_for_rest();
            carried(&hosts);
            assert_eq!(
                opened(&hosts),
                [round + 1; 2],
                "one to try it, then once a round"
            );
        }
        hosts.wait_for_rest();
        hosts.check_linked(Nic::Some, 12);
    }
}

/// Nobody opens a port for a connection that has ulsock at one end only, or may not leave kernel TCP.
#[test]
fn nothing_to_carry() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two().eager();
    hosts.wait_for_rest();
    for (ours, setting) in [(0, "daemon"), (1, "daemon"), (2, "off"), (2, "auto")] {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if setting == "auto" && cpus >= 4 {
            continue;
        }
        let end = |host: usize, name: &str| match ours == host || ours == 2 {
            true => hosts.own(host, name).env("ULSOCK_NIC", setting),
            false => hosts.plain(host, built(name)),
        };
        let server = end(0, "echo_threads").args("conns=4 host=:: port=7000");
        let server = server.start().listening(7000);
        let client = end(1, "echo_client").args("conns=4 rounds=1500 port=7000");
        let address = hosts.host(0).address();
        client.args(&format!("host={address}")).run();
        server.succeed();
        assert_eq!(opened(&hosts), [1; 2], "{ours} {setting}");
    }
    hosts.check_quiet();
}

/// Daemons are replaced while ports open, while they are open, while they close and while they rest; what is carried
/// loses nothing, and what comes then is carried.
#[test]
fn daemons_come_and_go() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two();
    for round in 0..6 {
        let host = round % 2;
        let replace = || {
            hosts.kill_nicd(host);
            hosts.start_nicd(host);
        };
        // The port is closed three to four seconds after the last connection.
        sleep(Duration::from_millis(2500 + 300 * round as u64));
        if round < 3 {
            replace();
        }
        let mut transfer = Transfer::start(&hosts, ECHO);
        if round >= 3 {
            replace();
        }
        transfer.moves(MORE);
        hosts.wait_until_served(4);
        transfer.finish();
    }
    hosts.wait_for_rest();
    hosts.check_linked(Nic::Some, 24);
}
