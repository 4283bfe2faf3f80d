//! Addresses that kernel rules translate on the way: a service's, a published port, a sidecar in front of a program. The
//! daemon of the host finds the two ends by connection tracking; who only looks like an end is not introduced.

use std::fs;

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::{Program, Running, built};

use super::{check_kernel, check_rings};
use crate::script;

/// A service: what is sent there goes to the first container.
const SERVICE: &str = "10.96.0.1";
const SERVICE6: &str = "fd96::1";
/// The service, by IPv4 and IPv6; the server sees who calls.
const TO_SERVICE: &str = "
    table inet service {
        chain to { type nat hook prerouting priority -100;
            ip daddr 10.96.0.1 tcp dport 80 dnat ip to 10.77.0.1:7000
            ip6 daddr fd96::1 tcp dport 80 dnat ip6 to [fd77::1]:7000
        }
    }";
/// The same, and the server sees the host call.
const AND_MASQUERADE: &str = "
    table inet service_from {
        chain from { type nat hook postrouting priority 100;
            ip daddr 10.77.0.1 tcp dport 7000 masquerade
            ip6 daddr fd77::1 tcp dport 7000 masquerade
        }
    }";

fn server(containers: &Hosts, host: usize, connections: usize) -> Running {
    let server = containers
        .own(host, "echo_threads")
        .args("host=:: port=7000");
    let server = server.arg(format!("conns={connections}")).start();
    server.listening(7000)
}

fn echo(client: Program, address: &str, port: u16) {
    let client = client.args("conns=4 rounds=3000");
    client
        .arg(format!("host={address}"))
        .arg(format!("port={port}"))
        .run();
}

fn check_introduced(containers: &Hosts, connections: u64) {
    check_rings(containers);
    if !kernel_only() {
        assert!(containers.guest_status().introduced >= connections);
    }
}

#[test]
fn a_service_address() {
    let containers = Hosts::two_containers();
    containers.rules_above(TO_SERVICE);
    let server = server(&containers, 0, 8);
    for address in [SERVICE, SERVICE6] {
        echo(containers.own(1, "echo_client"), address, 80);
    }
    server.succeed();
    check_introduced(&containers, 8);
}

#[test]
fn a_service_address_behind_masquerade() {
    let containers = Hosts::two_containers();
    containers.rules_above(TO_SERVICE);
    containers.rules_above(AND_MASQUERADE);
    let server = server(&containers, 0, 8);
    for address in [SERVICE, SERVICE6] {
        echo(containers.own(1, "echo_client"), address, 80);
    }
    server.succeed();
    check_introduced(&containers, 8);
}

/// Of the host: called by another container, and by the host itself, at its own address.
#[test]
fn a_published_port() {
    let containers = Hosts::two_containers();
    containers.rules_above(
        "table ip published {
            chain to { type nat hook prerouting priority -100;
                ip daddr 10.77.0.100 tcp dport 8080 dnat to 10.77.0.1:7000
            }
            chain from_here { type nat hook output priority -100;
                ip daddr 10.77.0.100 tcp dport 8080 dnat to 10.77.0.1:7000
            }
            chain from { type nat hook postrouting priority 100;
                ip saddr 10.77.0.0/24 ip daddr 10.77.0.1 masquerade
            }
        }",
    );
    let server = server(&containers, 0, 8);
    let above = containers.address_above();
    echo(containers.own(1, "echo_client"), &above, 8080);
    let client = containers.program_above(1, built("echo_client"));
    echo(client, &above, 8080);
    server.succeed();
    check_introduced(&containers, 8);
}

/// A program of the host, by another port and by a service's address.
#[test]
fn from_a_container_to_its_host() {
    let containers = Hosts::two_containers();
    containers.rules_above(
        "table ip here { chain to { type nat hook prerouting priority -100;
            tcp dport 80 redirect to :7000
        }
        }",
    );
    let server = containers.program_above(0, built("echo_threads"));
    let server = server.args("conns=8 host=:: port=7000").start();
    let server = server.listening(7000);
    for address in [SERVICE, &containers.address_above()] {
        echo(containers.own(1, "echo_client"), address, 80);
    }
    server.succeed();
    check_introduced(&containers, 8);
}

const REDIRECT: &str = "
    table inet here { chain to { type nat hook output priority -100;
        tcp dport 80 redirect to :7000
    }
    }";

/// In one network namespace, also between addresses that mean nothing elsewhere.
#[test]
fn redirected_in_one_container() {
    let containers = Hosts::two_containers();
    containers.rules(0, REDIRECT);
    let everything = |program: Program| program.env("ULSOCK_CLUSTER", "0.0.0.0/0,::/0");
    let server = everything(containers.own(0, "echo_threads")).args("host=:: port=7000");
    let server = server.args("conns=16").start().listening(7000);
    for address in [
        "127.0.0.1",
        "::1",
        &containers.host(0).address(),
        "10.0.0.9",
    ] {
        if address == "10.0.0.9" {
            // Nobody has it, but there is a route.
            containers.ip(0, "route add 10.0.0.0/24 dev eth0\n");
        }
        let client = everything(containers.own(0, "echo_client"));
        echo(client, address, 80);
    }
    server.succeed();
    containers.check_quiet();
    if !kernel_only() {
        let report = containers.host(0).report().0;
        assert!(report.ring_bytes() > report.kernel_bytes(), "{report:?}");
        assert!(containers.guest_status().introduced >= 16);
    }
}

/// What a container sends to a service is led to its own proxy, which runs as another user and calls the service. Both
/// connections leave the kernel, and the proxy is not bypassed.
#[test]
fn a_sidecar() {
    let containers = Hosts::two_containers();
    containers.rules_above(TO_SERVICE);
    containers.rules(
        1,
        "table ip sidecar { chain to { type nat hook output priority -100;
            meta skuid != haproxy ip daddr 10.96.0.1 tcp dport 80 redirect to :15001
        }
        }",
    );
    let config = containers.folder().join("haproxy.cfg");
    let text = format!(
        "defaults\n mode tcp\n timeout connect 10s\n timeout client 60s\n timeout server 60s\n\
         listen sidecar\n bind 0.0.0.0:15001\n server there {SERVICE}:80\n"
    );
    fs::write(&config, text).expect("config");
    let proxy = containers.program(1, "/usr/sbin/haproxy").args("-db -f");
    let proxy = proxy.arg(&config).user("haproxy").start().listening(15001);
    let server = server(&containers, 0, 4);
    echo(containers.own(1, "echo_client"), SERVICE, 80);
    server.succeed();
    proxy.stop(libc::SIGTERM);
    check_introduced(&containers, 8);
}

/// Rules in the container of the server, behind those on the way to it.
#[test]
fn a_sidecar_in_front_of_the_server() {
    let containers = Hosts::two_containers();
    containers.rules_above(TO_SERVICE);
    containers.rules_above(AND_MASQUERADE);
    containers.rules(
        0,
        "table inet sidecar { chain to { type nat hook prerouting priority -100;
            tcp dport 7000 redirect to :15006
        }
        }",
    );
    let server = containers.own(0, "echo_threads").args("host=:: port=15006");
    let server = server.args("conns=8").start().listening(15006);
    for address in [SERVICE, SERVICE6] {
        echo(containers.own(1, "echo_client"), address, 80);
    }
    server.succeed();
    check_introduced(&containers, 8);
}

#[test]
fn who_does_not_want_it_stays_on_the_kernel() {
    for end in [0, 1] {
        let containers = Hosts::two_containers();
        containers.rules_above(TO_SERVICE);
        let set = |host, program: Program| match host == end {
            true => program.env("ULSOCK_REDIRECTED", "0"),
            false => program,
        };
        let server = set(0, containers.own(0, "echo_threads"));
        let server = server.args("host=:: port=7000 conns=4").start();
        let server = server.listening(7000);
        echo(set(1, containers.own(1, "echo_client")), SERVICE, 80);
        server.succeed();
        check_kernel(&containers, "no-peer");
    }
}

/// Programs that say in every line who they are, in `scripts/translated.py`.
fn python(containers: &Hosts, host: usize, ours: bool) -> Program {
    let python = "/usr/bin/python3";
    let program = match ours {
        true => containers.program(host, python),
        false => containers.plain(host, python),
    };
    program.arg(script("translated.py"))
}

/// To the server two clients with one port are one host with two ports, one of which neither has chosen.
#[test]
fn two_clients_with_the_same_port_behind_masquerade() {
    let containers = Hosts::two_containers();
    containers.rules_above(TO_SERVICE);
    containers.rules_above(AND_MASQUERADE);
    containers.rules_above(
        "table ip from_here { chain from_here { type nat hook output priority -100;
            ip daddr 10.96.0.1 tcp dport 80 dnat to 10.77.0.1:7000
        }
        }",
    );
    let server = python(&containers, 0, true).args("server 7000 8");
    let server = server.start().listening(7000);
    for _ in 0..4 {
        let in_container = python(&containers, 1, true);
        let above = containers.program_above(1, "/usr/bin/python3");
        let clients = [
            ("one", in_container),
            ("two", above.arg(script("translated.py"))),
        ];
        let clients = clients.map(|(name, client)| {
            let client = client.args("client").arg(SERVICE).args("80").arg(name);
            client.args("from=7001 seconds=0.7").start()
        });
        for client in clients {
            client.succeed();
        }
    }
    server.succeed();
    check_introduced(&containers, 6);
}

/// The kernel knows the addresses from the connection before.
#[test]
fn addresses_that_are_used_again_after_a_reset() {
    let containers = Hosts::two_containers();
    containers.rules_above(TO_SERVICE);
    let server = python(&containers, 0, true).args("server 7000 12");
    let server = server.start().listening(7000);
    let client = python(&containers, 1, true).args("client").arg(SERVICE);
    let client = client.args("80 one from=7001 times=12 seconds=0.2");
    client.run();
    server.succeed();
    check_introduced(&containers, 8);
}

/// Connection tracking tells of a connection with these addresses, which is one of another network: one end of each is
/// on ulsock, and the two would fit.
#[test]
fn nobody_meets_the_end_of_another_network_by_what_is_tracked() {
    let containers = Hosts::containers(2);
    containers.rules_above(TO_SERVICE);
    containers.ip(2, &format!("addr add {SERVICE}/32 dev lo\n"));
    containers.ip(
        3,
        &format!(
            "route add {SERVICE}/32 via {}\n",
            containers.host(2).address()
        ),
    );
    let servers = [(0, true, "7000"), (2, false, "80")].map(|(host, ours, port)| {
        let server = python(&containers, host, ours).arg("server").arg(port);
        server
            .arg("1")
            .start()
            .listening(port.parse().expect("a port"))
    });
    let clients = [(1, false), (3, true)].map(|(host, ours)| {
        let client = python(&containers, host, ours).arg("client").arg(SERVICE);
        client.args("80 one from=7001 seconds=3").start()
    });
    for program in clients.into_iter().chain(servers) {
        program.succeed();
    }
    containers.check_quiet();
    for host in [0, 3] {
        let report = containers.host(host).report().0;
        assert_eq!(report.ring_bytes(), 0, "{report:?}");
        assert!(report.reasons.contains_key("no-peer") || kernel_only());
    }
    if !kernel_only() {
        assert_eq!(containers.guest_status().introduced, 0);
    }
}

/// Its end is in a container, and the daemon is not allowed to ask whom the kernel has led there.
#[test]
fn without_connection_tracking_they_stay_on_the_kernel() {
    if kernel_only() {
        return;
    }
    let containers = Hosts::two_containers();
    containers.rules_above(TO_SERVICE);
    containers.kill_nicd_above();
    containers.start_nicd_above_by(&script("no_conntrack.py"));
    let server = server(&containers, 0, 8);
    echo(containers.own(1, "echo_client"), SERVICE, 80);
    assert_eq!(containers.guest_status().introduced, 0);
    // What nothing translates is introduced as ever.
    echo(
        containers.own(1, "echo_client"),
        &containers.host(0).address(),
        7000,
    );
    server.succeed();
    assert!(containers.guest_status().introduced >= 4);
    containers.check_quiet();
    let said = containers.nicd_above_says();
    assert_eq!(said.matches("no connection tracking").count(), 1, "{said}");
}
