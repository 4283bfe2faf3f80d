//! More of everything: three hosts, a thousand connections, a long stream.

use tests::hosts::{Hosts, Nic};

use super::transfer::{Transfer, long};

#[test]
fn three_hosts_on_a_bridge() {
    let hosts = Hosts::on_a_bridge(3);
    let address = |host: usize, number: usize| match number % 2 {
        0 => hosts.host(host).address(),
        _ => hosts.host(host).address6(),
    };
    // Everybody serves, and calls everybody else; one of them over IPv6.
    let servers: Vec<_> = (0..3)
        .map(|host| {
            let server = hosts
                .own(host, "echo_threads")
                .args("conns=8 host=:: port=7000");
            server.start().listening(7000)
        })
        .collect();
    let pairs = (0..3).flat_map(|from| [(from, (from + 1) % 3), (from, (from + 2) % 3)]);
    let clients: Vec<_> = pairs
        .map(|(from, to)| {
            let client = hosts
                .own(from, "echo_client")
                .args("conns=4 rounds=1500 port=7000");
            client.args(&format!("host={}", address(to, from))).start()
        })
        .collect();
    for program in clients.into_iter().chain(servers) {
        program.succeed();
    }
    hosts.check_linked(Nic::Most, 16);
}

#[test]
fn a_thousand_connections() {
    let hosts = Hosts::two();
    let server = hosts.own(0, "echo_epoll").args("host=:: port=7000");
    let server = server.piped().start().listening(7000);
    let client = hosts.own(1, "echo_client");
    let client = client.args("conns=1000 rounds=20 max=2000 port=7000");
    client
        .args(&format!("host={}", hosts.host(0).address()))
        .run();
    let output = server.succeed();
    assert!(output.contains("connections 1000"), "{output}");
    // Threads by the hundred keep each other waiting, and not all agree in time.
    hosts.check(Nic::Some);
}

/// Random pieces both ways, every byte checked.
#[test]
fn a_long_stream() {
    let hosts = Hosts::two();
    let mut transfer = Transfer::start(&hosts, "style=stream conns=2");
    transfer.moves(long());
    transfer.finish();
    hosts.check_linked(Nic::Some, 2);
}
