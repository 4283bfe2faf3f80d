//! Containers of one host: network namespaces that share a run directory. Their connections get rings, also
//! between different users; not where the operator has not said that addresses are unique, and not with
//! somebody who only pretends to be the other end.

mod apart;
mod examples;
mod translated;

use std::fs;

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::Program;
use tests::report::Report;

use super::programs::nginx_config;
use crate::{pattern_file, same_content, script};

/// No user of a container, and not root.
pub const STRANGER: &str = "daemon";

fn containers() -> Hosts {
    Hosts::two().with_one_run_dir()
}

/// The server's report and the client's, when all programs have ended.
pub fn reports(containers: &Hosts) -> [Report; 2] {
    containers.check_quiet();
    [0, 1].map(|host| containers.host(host).report().0)
}

pub fn check_rings(containers: &Hosts) {
    for report in reports(containers) {
        let most = report.ring_bytes() > report.kernel_bytes();
        assert!(most || kernel_only(), "{report:?}");
    }
}

pub fn check_kernel(containers: &Hosts, reason: &str) {
    for report in reports(containers) {
        assert_eq!(report.ring_bytes(), 0, "{report:?}");
        let noted = report.reasons.contains_key(reason);
        assert!(noted || kernel_only(), "{reason} in {report:?}");
    }
}

/// redis-server in one, redis-benchmark in the other, after a change to each.
pub fn redis(containers: &Hosts, change: impl Fn(usize, Program) -> Program) {
    let server = containers.program(0, "redis-server");
    let server = server.args("--port 6379 --protected-mode no --appendonly no --save");
    let server = change(0, server.arg("").directory(containers.folder())).start();
    let server = server.listening(6379);
    let address = containers.host(0).address();
    for options in ["-c 1 -t get,incr", "-c 20 -P 4 -d 1000 -t set,get,lpush"] {
        let client = containers.program(1, "redis-benchmark");
        let client = client.args(&format!("-h {address} -q -n 10000 {options}"));
        change(1, client).run();
    }
    server.stop(libc::SIGTERM);
}

#[test]
fn redis_of_any_user() {
    for users in [[None, None], [Some(STRANGER), None], [None, Some(STRANGER)]]
        .into_iter()
        .chain([[Some("redis"), Some(STRANGER)]])
    {
        let containers = containers();
        redis(&containers, |host, program| match users[host] {
            Some(user) => program.user(user),
            None => program,
        });
        check_rings(&containers);
    }
}

/// Its workers are another user's than its master.
#[test]
fn nginx() {
    let containers = containers().eager();
    let folder = containers.folder();
    fs::create_dir(folder.join("www")).expect("www");
    pattern_file(&folder.join("www/small"), 612);
    pattern_file(&folder.join("www/big"), 50_000_000);
    fs::write(folder.join("nginx.conf"), nginx_config(&containers)).expect("config");
    let server = containers.program(0, "/usr/sbin/nginx");
    let server = server.args("-e stderr -p").arg(folder).arg("-c");
    let server = server.arg(folder.join("nginx.conf")).start();
    let server = server.listening(80);
    let host = containers.host(0);
    let wrk = containers.program(1, "wrk").args("-t1 -c20 -d1s");
    let output = wrk.arg(format!("http://{}/small", host.address())).run();
    assert!(output.contains("Requests/sec"), "{output}");
    for trouble in ["Non-2xx", "Socket errors"] {
        assert!(!output.contains(trouble), "{output}");
    }
    for address in [host.address(), format!("[{}]", host.address6())] {
        let curl = containers.program(1, "curl").args("-sS --fail -g -o copy");
        let curl = curl.arg(format!("http://{address}/big"));
        curl.directory(folder).run();
        same_content(&folder.join("www/big"), &folder.join("copy"));
    }
    let finished = server.stop(libc::SIGQUIT);
    assert!(finished.status.success(), "nginx: {}", finished.status);
    check_rings(&containers);
}

/// Byte by byte, to and fro, by threads, and with three containers on a bridge.
#[test]
fn echoes_on_a_bridge() {
    let containers = Hosts::on_a_bridge(3).with_one_run_dir();
    let server = containers.own(0, "echo_threads").args("conns=8 host=::");
    let server = server.args("port=7000").start().listening(7000);
    let host = containers.host(0);
    let clients = [(1, host.address()), (2, host.address6())].map(|(number, address)| {
        let client = containers.own(number, "echo_client").args("conns=4");
        let client = client.args(&format!("rounds=2000 port=7000 host={address}"));
        client.start()
    });
    for client in clients {
        client.succeed();
    }
    server.succeed();
    check_rings(&containers);
}

#[test]
fn without_a_cluster_they_stay_on_the_kernel() {
    let containers = containers();
    redis(&containers, |_, program| program.without("ULSOCK_CLUSTER"));
    check_kernel(&containers, "scope");
}

#[test]
fn with_two_run_directories_they_stay_on_the_kernel() {
    let containers = Hosts::two().with("ULSOCK_NIC", "off");
    redis(&containers, |_, program| program);
    check_kernel(&containers, "other-host");
}

/// A connection on the kernel, whose client is not under ulsock, and a process that offers it: what became
/// of the offer. The connection goes on either way.
fn forge(change: impl FnOnce(&Hosts, Program) -> Program, wrap: &str) -> (String, Report) {
    let containers = containers();
    let server = containers.own(0, "echo_threads").args("conns=1 host=::");
    let server = server.args("port=7000").start().listening(7000);
    let forger = script("forger.py");
    let client = containers.plain(1, "/usr/bin/python3");
    let mut client = client.arg(&forger).arg("client").piped().start();
    client.prints("connected");
    let mut words = wrap.split_whitespace();
    let forging = containers.plain(1, words.next().expect("a command"));
    let forging = words.fold(forging, |forging, word| forging.arg(word));
    // Other users may be unable to reach the script.
    let copy = containers.folder().join("forger.py");
    fs::copy(forger, &copy).expect("copy the script");
    let forging = forging.arg(copy).arg(containers.host(0).run_dir());
    let said = change(&containers, forging).run();
    client.succeed();
    server.succeed();
    containers.check_quiet();
    (said, containers.host(0).report().0)
}

fn refused((said, report): (String, Report)) {
    if kernel_only() {
        return;
    }
    assert_eq!(said, "offered\nshown\nrefused\n");
    assert_eq!(report.ring_bytes(), 0, "{report:?}");
    assert_eq!(report.reasons.get("identity"), Some(&1), "{report:?}");
}

/// Any user can make a network namespace, and give it the addresses of others.
#[test]
fn nobody_claims_from_a_namespace_that_any_user_could_make() {
    let home = "unshare --user --net --map-current-user --keep-caps /usr/bin/python3";
    refused(forge(|_, forger| forger.arg("home").user(STRANGER), home));
}

#[test]
fn nobody_claims_from_another_user_of_the_right_namespace() {
    let python = "/usr/bin/python3";
    refused(forge(
        |_, forger| forger.arg("neighbour").user(STRANGER),
        python,
    ));
}

/// The control of the two above: the forger does everything right, and is root as the client is.
#[test]
fn a_claim_goes_to_the_user_who_owns_the_other_end() {
    let (said, _) = forge(|_, forger| forger.arg("neighbour"), "/usr/bin/python3");
    assert!(said.ends_with("claimed\n") || kernel_only(), "{said}");
}
