//! Containers that share nothing but the door of the host's daemon, which introduces their programs: these get
//! rings as others do, and need it no more. Nobody is introduced to a program that is not the other end.

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::{Program, Running, built};

use super::{STRANGER, check_kernel, check_rings, redis, reports};
use crate::script;

/// Waits until the daemon has brought so many connections together.
fn wait_until_introduced(containers: &Hosts, program: &mut Running, count: u64) {
    program.until("its connections are introduced", |_| {
        kernel_only() || containers.guest_status().introduced >= count
    });
}

#[test]
fn redis_of_any_user() {
    for users in [[None, None], [Some("redis"), Some(STRANGER)]] {
        let containers = Hosts::two_containers();
        redis(&containers, |host, program| match users[host] {
            Some(user) => program.user(user),
            None => program,
        });
        check_rings(&containers);
        for report in reports(&containers) {
            assert_eq!(report.nic, 0, "{report:?}");
        }
    }
}

/// Also while much is under way, by IPv6, and many between the same two programs.
#[test]
fn streams_and_many() {
    let containers = Hosts::two_containers();
    let server = containers.own(0, "echo_threads").args("conns=200 host=::");
    let server = server.args("port=7000").start().listening(7000);
    let host = containers.host(0);
    let clients = [(20, 100_000), (180, 100)].map(|(conns, max)| {
        let client = containers.own(1, "echo_client");
        let client = client.args(&format!("conns={conns} max={max} rounds=300 port=7000"));
        client.arg(format!("host={}", host.address6())).start()
    });
    for client in clients {
        client.succeed();
    }
    server.succeed();
    check_rings(&containers);
}

/// They go on as if nothing had happened; who comes later waits for the next daemon.
#[test]
fn the_daemon_is_killed_and_started_again() {
    let containers = Hosts::two_containers();
    let server = containers.own(0, "echo_threads").args("conns=12 host=::");
    let server = server.args("port=7000").start().listening(7000);
    let address = containers.host(0).address();
    let client = |rounds| {
        let client = containers.own(1, "echo_client").args("conns=4 fixed=100");
        let client = client.args(&format!("rounds={rounds} port=7000 host={address}"));
        client.start()
    };
    let mut first = client(200_000);
    wait_until_introduced(&containers, &mut first, 4);
    containers.kill_nicd_above();
    let second = client(10_000);
    first.succeed();
    second.succeed();
    if !kernel_only() {
        containers.start_nicd_above();
    }
    let mut third = client(200_000);
    wait_until_introduced(&containers, &mut third, 4);
    third.succeed();
    server.succeed();
    check_rings(&containers);
}

/// A program with a socket that another user has made: nobody can know whose the connection is.
#[test]
fn a_connection_of_another_user_stays_on_the_kernel() {
    let containers = Hosts::two_containers();
    let neighbours = Neighbours::new(&containers);
    let server = neighbours.server(0, true, "one");
    let client = neighbours.client(1, true, "one").arg("user=daemon");
    client.run();
    server.succeed();
    containers.check_quiet();
    let [server, client] = reports(&containers);
    for (report, reason) in [(server, "no-peer"), (client, "identity")] {
        assert_eq!(report.ring_bytes(), 0, "{report:?}");
        let noted = report.reasons.contains_key(reason);
        assert!(noted || kernel_only(), "{reason} in {report:?}");
    }
}

/// Both have the same addresses and ports; each program meets its own peer.
#[test]
fn two_networks_with_the_same_addresses() {
    let containers = Hosts::containers(2);
    let neighbours = Neighbours::new(&containers);
    let servers = [(0, "one"), (2, "two")].map(|(host, name)| neighbours.server(host, true, name));
    let clients = [(1, "one"), (3, "two")]
        .map(|(host, name)| neighbours.client(host, true, name).arg("from=7001").start());
    clients.into_iter().chain(servers).for_each(succeed);
    check_rings(&containers);
    for host in [2, 3] {
        let report = containers.host(host).report().0;
        assert!(report.ring_bytes() > report.kernel_bytes() || kernel_only());
    }
}

/// Of each network one program is on ulsock, and their two ends would fit: they are not ends of one connection.
#[test]
fn nobody_meets_the_peer_of_another_network() {
    let containers = Hosts::containers(2);
    let neighbours = Neighbours::new(&containers);
    let servers = [(0, true, "one"), (2, false, "two")]
        .map(|(host, ours, name)| neighbours.server(host, ours, name));
    let clients = [(1, false, "one"), (3, true, "two")].map(|(host, ours, name)| {
        let client = neighbours.client(host, ours, name);
        client.args("from=7001 seconds=3").start()
    });
    clients.into_iter().chain(servers).for_each(succeed);
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

#[test]
fn doctor_tells_of_the_daemon() {
    if kernel_only() {
        return;
    }
    let containers = Hosts::two_containers();
    let told = || {
        let doctor = containers.own(0, "ulsock").without("LD_PRELOAD");
        doctor.arg("doctor").start().wait().output
    };
    let text = told();
    assert!(text.contains("the host's nicd: answers"), "{text}");
    containers.kill_nicd_above();
    let text = told();
    assert!(text.contains("the host's nicd: nobody answers"), "{text}");
}

fn succeed(program: Running) {
    program.succeed();
}

/// Between a container and its host, both ways round.
#[test]
fn the_host_itself() {
    let containers = Hosts::two_containers();
    let server = containers.own(0, "echo_threads").args("conns=4 host=::");
    let server = server.args("port=7000").start().listening(7000);
    let client = containers.program_above(1, built("echo_client"));
    let client = client.args("conns=4 rounds=3000 port=7000");
    let address = containers.host(0).address();
    client.arg(format!("host={address}")).run();
    server.succeed();
    let server = containers.program_above(1, built("echo_threads"));
    let server = server.args("conns=4 host=:: port=7000");
    let server = server.start().listening(7000);
    let client = containers.own(0, "echo_client");
    let client = client.args("conns=4 rounds=3000 port=7000");
    let address = containers.address_above();
    client.arg(format!("host={address}")).run();
    server.succeed();
    check_rings(&containers);
}

/// Pairs that ask for each other by a name, in `scripts/neighbour.py`.
struct Neighbours<'a> {
    containers: &'a Hosts,
}

impl Neighbours<'_> {
    fn new(containers: &Hosts) -> Neighbours<'_> {
        Neighbours { containers }
    }

    fn python(&self, host: usize, ours: bool) -> Program {
        let python = "/usr/bin/python3";
        let program = match ours {
            true => self.containers.program(host, python),
            false => self.containers.plain(host, python),
        };
        program.arg(script("neighbour.py"))
    }

    fn server(&self, host: usize, ours: bool, name: &str) -> Running {
        let server = self.python(host, ours).args("server 7000").arg(name);
        server.start().listening(7000)
    }

    fn client(&self, host: usize, ours: bool, name: &str) -> Program {
        let client = self.python(host, ours).arg("client");
        let client = client.arg(self.containers.host(0).address());
        client.args("7000").arg(name)
    }
}

#[test]
fn without_a_cluster_they_stay_on_the_kernel() {
    let containers = Hosts::two_containers();
    redis(&containers, |_, program| program.without("ULSOCK_CLUSTER"));
    check_kernel(&containers, "scope");
}
