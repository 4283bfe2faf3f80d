//! Daemons that know each other by IPv6 addresses, so that the link itself is UDP over IPv6; connections of both
//! families go by it.

use tests::hosts::{Hosts, Nic};

use super::transfer::Transfer;

#[test]
fn a_transfer() {
    for style in ["style=stream conns=1", "style=echo conns=2"] {
        let hosts = Hosts::two_by_ipv6();
        let mut transfer = Transfer::start(&hosts, style);
        transfer.moves(3_000_000);
        transfer.finish();
        hosts.check(Nic::Some);
    }
}

#[test]
fn redis() {
    let hosts = Hosts::two_by_ipv6();
    let server = hosts.program(0, "redis-server");
    let server =
        server.args("--port 6379 --bind * -::* --protected-mode no --appendonly no --save");
    let server = server.arg("").directory(hosts.folder()).start();
    let server = server.listening(6379);
    for address in [hosts.host(0).address6(), hosts.host(0).address()] {
        let benchmark = hosts.program(1, "redis-benchmark");
        let benchmark = benchmark.args(&format!("-h {address} -q -n 10000 -c 4 -t incr"));
        benchmark.run();
        let client = hosts.program(1, "redis-cli").args(&format!("-h {address}"));
        let counted = client.args("getdel counter:__rand_int__").run();
        assert_eq!(counted.trim_end(), "10000");
    }
    server.stop(libc::SIGTERM);
    hosts.check(Nic::Most);
}
