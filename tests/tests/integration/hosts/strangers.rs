//! What is not ours goes on as ever on the same interface: ping, ssh, kernel TCP and UDP.

use std::fs;

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::Program;
use tests::top;

use crate::{pattern_file, same_content};

#[test]
fn ping() {
    let hosts = Hosts::two();
    let host = hosts.host(0);
    for address in [host.address(), host.address6()] {
        let ping = hosts.plain(1, "ping").args("-c 20 -i 0.01 -s 1400");
        let output = ping.arg(&address).run();
        assert!(output.contains("20 received"), "{output}");
    }
}

/// Both ends without ulsock, and then one with it and one without.
#[test]
fn kernel_tcp() {
    type Start = fn(&Hosts, usize, &str) -> Program;
    let plain: Start = |hosts, host, name| hosts.plain(host, tests::program::built(name));
    let ours: Start = |hosts, host, name| hosts.own(host, name);
    for (server, client) in [(plain, plain), (ours, plain), (plain, ours)] {
        let hosts = Hosts::two();
        let server = server(&hosts, 0, "echo_threads").args("conns=4 host=:: port=7000");
        let server = server.start().listening(7000);
        let client = client(&hosts, 1, "echo_client").args("conns=4 rounds=300 port=7000");
        client
            .args(&format!("host={}", hosts.host(0).address()))
            .run();
        server.succeed();
        for host in [0, 1] {
            let (report, _) = hosts.host(host).report();
            assert_eq!(report.ring_bytes(), 0, "{report:?}");
        }
        hosts.check_quiet();
    }
}

/// By default the daemon must have a CPU to itself; the reason says so on both ends.
#[test]
fn few_cpus() {
    if !has_few_cpus() {
        return;
    }
    all_stay("auto", "few-cpus");
}

/// The daemon knows by its peers file that nobody is to be found on this host.
#[test]
fn turned_off() {
    if !kernel_only() {
        all_stay("off", "other-host");
    }
}

fn all_stay(nic: &str, reason: &str) {
    for after in ["1", "8"] {
        let hosts = Hosts::two().with("ULSOCK_NIC", nic);
        let hosts = hosts.with("ULSOCK_UPGRADE_AFTER", after);
        let server = hosts.own(0, "echo_threads");
        let server = server.args("conns=4 host=:: port=7000").start();
        let server = server.listening(7000);
        let client = hosts.own(1, "echo_client");
        // On a busy machine, all of it could be over before the daemon has said a word.
        let client = client.args("conns=4 rounds=600 rest_ms=300 port=7000");
        let address = hosts.host(0).address();
        client.args(&format!("host={address}")).run();
        server.succeed();
        for host in [0, 1] {
            let (report, _) = hosts.host(host).report();
            assert_eq!(report.reasons.get(reason), Some(&4), "{report:?}");
            assert_eq!(report.ring_bytes(), 0, "{report:?}");
        }
        hosts.check_quiet();
    }
}

/// After many calls nobody looks for a peer any more; what they move is counted all the same.
#[test]
fn few_cpus_for_long() {
    const INCREMENTS: usize = 10_000;
    if !has_few_cpus() {
        return;
    }
    let hosts = Hosts::two().with("ULSOCK_NIC", "auto");
    let server = hosts.program(0, "redis-server");
    let server = server.args("--port 6379 --protected-mode no --appendonly no --save");
    let server = server.arg("").directory(hosts.folder()).start();
    let server = server.listening(6379);
    let address = hosts.host(0).address();
    let client = hosts.program(1, "redis-benchmark");
    let client = client.args(&format!("-h {address} -q -c 1 -n {INCREMENTS} -t incr"));
    client.run();
    let counter = hosts.plain(0, "redis-cli").args("get counter:__rand_int__");
    assert_eq!(counter.run().trim_end(), INCREMENTS.to_string());
    server.stop(libc::SIGTERM);
    let (client, server) = (hosts.host(1).report().0, hosts.host(0).report().0);
    let each = client.kernel_tx_bytes / INCREMENTS as u64;
    // INCR and the name of the counter.
    assert!((40..60).contains(&each), "{client:?}");
    assert!(client.kernel_rx_bytes > 3 * INCREMENTS as u64, "{client:?}");
    assert!(
        server.kernel_rx_bytes >= client.kernel_tx_bytes,
        "{server:?} {client:?}"
    );
    assert!(
        server.kernel_tx_bytes >= client.kernel_rx_bytes,
        "{server:?} {client:?}"
    );
    for report in [&client, &server] {
        assert!(report.reasons.contains_key("few-cpus"), "{report:?}");
        assert_eq!(report.ring_bytes(), 0, "{report:?}");
    }
    hosts.check_quiet();
}

/// No daemon says that the address is another host's: nobody on this host has answered after 4096 calls, and nobody
/// will. From then on its calls are not ours, and so not counted; the kernel's bytes are.
#[test]
fn few_cpus_and_no_daemon() {
    const ROUNDS: u64 = 6000;
    const ENOUGH: u64 = 4096;
    if !has_few_cpus() {
        return;
    }
    let hosts = Hosts::two().with("ULSOCK_NIC", "auto");
    for host in [0, 1] {
        hosts.stop_nicd(host);
    }
    let server = hosts.own(0, "echo_epoll").args("host=:: port=7000");
    let mut server = server.piped().start().listening(7000);
    let client = hosts.own(1, "idle").args("port=7000 conns=2 wait=epoll");
    let client = client.args(&format!("rounds={ROUNDS} host={}", hosts.host(0).address()));
    let mut client = client.start();
    client.prints("idle");
    for (host, direction) in [(1, "connected"), (0, "accepted")] {
        let rows = top::rows(hosts.host(host).run_dir());
        assert_eq!(rows.len(), 2, "{rows:?}");
        for row in &rows {
            let counted = row.tx_msgs + row.rx_msgs;
            assert!(
                (ENOUGH - 1..ENOUGH + 600).contains(&counted),
                "{direction}: {row:?}"
            );
            assert_eq!(row.reason, "no-peer", "{row:?}");
        }
    }
    server.tell("poke\n");
    client.succeed();
    server.succeed();
    let (report, _) = hosts.host(1).report();
    // As large as the messages of `idle`.
    assert_eq!(report.kernel_tx_bytes, 2 * 32 * ROUNDS, "{report:?}");
    assert_eq!(report.ring_bytes(), 0, "{report:?}");
}

fn has_few_cpus() -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    cpus < 4 && !kernel_only()
}

#[test]
fn udp() {
    let hosts = Hosts::two();
    let server = hosts
        .plain(0, "iperf3")
        .args("-s -1")
        .start()
        .listening(5201);
    let client = hosts.plain(1, "iperf3").args("-u -b 50M -t 1 -J -c");
    let output = client.arg(hosts.host(0).address()).run();
    let result: serde_json::Value = serde_json::from_str(&output).expect("iperf3's JSON");
    let packets = result["end"]["sum"]["packets"].as_u64();
    assert!(packets > Some(1000), "{output}");
    server.succeed();
}

#[test]
fn ssh() {
    let hosts = Hosts::two();
    let folder = hosts.folder();
    // sshd wants it even when told to keep everything else elsewhere.
    fs::create_dir_all("/run/sshd").expect("/run/sshd");
    for name in ["key", "user"] {
        let keygen = hosts.plain(0, "ssh-keygen").args("-q -t ed25519 -N");
        keygen.arg("").arg("-f").arg(folder.join(name)).run();
    }
    let config = format!(
        "Port 22\nHostKey {0}/key\nPidFile none\nAuthorizedKeysFile {0}/user.pub\n\
         PermitRootLogin yes\nStrictModes no\nSubsystem sftp internal-sftp\n",
        folder.display()
    );
    fs::write(folder.join("sshd_config"), config).expect("config");
    let server = hosts.plain(0, "/usr/sbin/sshd").args("-D -e -f");
    let server = server.arg(folder.join("sshd_config")).start().listening(22);
    pattern_file(&folder.join("file"), 20_000_000);
    let options =
        "-q -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i";
    let scp = hosts.plain(1, "scp").args(options).arg(folder.join("user"));
    let scp = scp.arg(folder.join("file"));
    let there = format!("{}:{}/copy", hosts.host(0).address(), folder.display());
    scp.arg(format!("root@{there}")).run();
    same_content(&folder.join("file"), &folder.join("copy"));
    server.stop(libc::SIGTERM);
}
