//! More of everything: three hosts, a thousand connections, a long stream.

use tests::hosts::{Hosts, Nic};

/// Each way on each connection.
const STREAM: u64 = 50_000_000;
/// The same when `TESTS_HOSTS_GB` says how many gigabytes there shall be in all.
fn stream() -> u64 {
    let wish = std::env::var("TESTS_HOSTS_GB").ok();
    let wish = wish.and_then(|text| text.parse::<u64>().ok());
    wish.map_or(STREAM, |gigabytes| gigabytes * 1_000_000_000 / 4)
}

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
                .args("conns=4 rounds=300 port=7000");
            client.args(&format!("host={}", address(to, from))).start()
        })
        .collect();
    for program in clients.into_iter().chain(servers) {
        program.succeed();
    }
    hosts.check(Nic::Most);
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
    hosts.check(Nic::Most);
}

/// Random pieces both ways, every byte checked.
#[test]
fn a_long_stream() {
    for mode in ["blocking", "epoll"] {
        let hosts = Hosts::two();
        let arguments = format!("port=7000 mode={mode} seed=1 bytes={} conns=2", stream());
        let server = hosts
            .own(0, "stress")
            .args("listen host=::")
            .args(&arguments);
        let server = server.limit(3600).start().listening(7000);
        let client = hosts.own(1, "stress").args("connect").args(&arguments);
        let client = client.args(&format!("host={}", hosts.host(0).address()));
        for program in [client.limit(3600).start(), server] {
            let output = program.succeed();
            assert!(output.contains("all bytes in their places"), "{output}");
        }
        hosts.check(Nic::Some);
    }
}
