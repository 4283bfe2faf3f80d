//! Hosts far from each other, where everything that two ends have to agree on takes its time.

use std::time::Duration;

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};
use tests::wait;

/// An agreement takes longer than any send waits at first: the next ones wait longer.
#[test]
fn connections_get_to_the_link() {
    let hosts = Hosts::two_apart(Duration::from_millis(20)).eager();
    let server = hosts.own(0, "echo_threads");
    let server = server.args("conns=2 host=:: port=7000");
    let server = server.start().listening(7000);
    let client = hosts.own(1, "echo_client");
    let client = client.args("conns=2 rounds=150 fixed=100 port=7000");
    let address = hosts.host(0).address();
    client.args(&format!("host={address}")).run();
    server.succeed();
    hosts.check_linked(Nic::Some, 2);
}

/// A stream to which nobody answers has one try.
#[test]
fn a_stream_gets_to_the_link() {
    let hosts = Hosts::two_apart(Duration::from_millis(20)).eager();
    let server = hosts.program(0, "iperf3").args("-s -1 -p 7001");
    let server = server.start().listening(7001);
    let client = hosts.program(1, "iperf3").args("-p 7001 -l 1K -b 8M -t 3");
    client.args("-c").arg(hosts.host(0).address()).run();
    server.succeed();
    hosts.check(Nic::Most);
}

/// Both daemons call, and each call takes longer than the other waits before it does: one of the two is kept, and
/// nobody calls again, not even after the second in which a call that has failed is repeated.
#[test]
fn daemons_stay_in_touch() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two_apart(Duration::from_millis(150));
    wait::throughout(Duration::from_secs(2), "in touch once", || {
        let said = [0, 1].map(|host| hosts.nicd_says(host));
        let once = |said: &String| said.matches("in touch").count() == 1;
        let kept = |said: &String| !said.contains("channel lost");
        let holds = said.iter().all(|said| once(said) && kept(said));
        holds.then_some(()).ok_or_else(|| said.concat())
    });
}
