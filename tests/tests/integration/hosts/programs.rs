//! Servers on the first host, their clients on the second: what is stored is what comes back.

use std::fs;
use std::os::unix::fs::chown;

use tests::hosts::{Hosts, Nic};
use tests::program::{Program, user_ids};

use super::python;
use crate::programs::postgres;
use crate::{pattern_file, same_content};

#[test]
fn redis() {
    const REQUESTS: usize = 10_000;
    let hosts = Hosts::two();
    let server = hosts.program(0, "redis-server");
    let server = server.args("--port 6379 --protected-mode no --appendonly no --save");
    let server = server.arg("").directory(hosts.folder()).start();
    let server = server.listening(6379);
    let address = hosts.host(0).address();
    let benchmark = |options: &str| {
        let client = hosts.program(1, "redis-benchmark");
        let common = format!("-h {address} -q -n {REQUESTS}");
        client.args(&common).args(options).run()
    };
    let shell = |command: &str| {
        let client = hosts.program(1, "sh").args("-c");
        let client = client.arg(format!("redis-cli -h {address} {command}"));
        let output = client.directory(hosts.folder()).run();
        output.trim_end().to_owned()
    };
    benchmark("-c 1 -t get,incr");
    benchmark("-c 20 -t set,get,lpush");
    benchmark("-c 10 -P 16 -d 4096 -t set,get");
    assert_eq!(shell("get counter:__rand_int__"), REQUESTS.to_string());
    assert_eq!(shell("llen mylist"), REQUESTS.to_string());
    pattern_file(&hosts.folder().join("value"), 3_000_000);
    assert_eq!(shell("-x set big < value"), "OK");
    // redis-cli ends its output with a newline.
    shell("get big | head -c -1 > copy");
    same_content(&hosts.folder().join("value"), &hosts.folder().join("copy"));
    server.stop(libc::SIGTERM);
    // Pipelines and large values are bulk, which the kernel carries; the clients of the first two have 62 connections.
    hosts.check_linked(Nic::Some, 62);
}

#[test]
fn nginx() {
    let hosts = Hosts::two().eager();
    let folder = hosts.folder();
    fs::create_dir(folder.join("www")).expect("www");
    pattern_file(&folder.join("www/small"), 612);
    pattern_file(&folder.join("www/big"), 50_000_000);
    fs::write(folder.join("nginx.conf"), nginx_config(&hosts)).expect("config");
    let server = hosts.program(0, "/usr/sbin/nginx");
    let server = server.args("-e stderr -p").arg(folder).arg("-c");
    let server = server.arg(folder.join("nginx.conf")).start();
    let server = server.listening(80);
    let [v4, v6] = [hosts.host(0).address(), hosts.host(0).address6()];
    let wrk = hosts.program(1, "wrk").args("-t1 -c20 -d1s");
    let output = wrk.arg(format!("http://{v4}/small")).run();
    assert!(output.contains("Requests/sec"), "{output}");
    for trouble in ["Non-2xx", "Socket errors"] {
        assert!(!output.contains(trouble), "{output}");
    }
    for address in [v4, format!("[{v6}]")] {
        let curl = hosts.program(1, "curl").args("-sS --fail -g -o copy");
        let curl = curl.arg(format!("http://{address}/big"));
        curl.directory(folder).run();
        same_content(&folder.join("www/big"), &folder.join("copy"));
    }
    let finished = server.stop(libc::SIGQUIT);
    assert!(finished.status.success(), "nginx: {}", finished.status);
    // Those of wrk; the large file is the kernel's.
    hosts.check_linked(Nic::Some, 20);
}

pub fn nginx_config(hosts: &Hosts) -> String {
    let folder = hosts.folder().display();
    format!(
        "env LD_PRELOAD; env ULSOCK_RUN_DIR; env ULSOCK_REPORT; env ULSOCK_UPGRADE_AFTER;
         env ULSOCK_CLUSTER; env ULSOCK_NIC; user www-data; worker_processes 2; pid {folder}/nginx.pid; daemon off;
         error_log {folder}/nginx-error.err; events {{ worker_connections 512; }}
         http {{
             access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
             scgi_temp_path {folder}/scgi;
             server {{ listen 80; listen [::]:80; root {folder}/www; }}
         }}"
    )
}

#[test]
fn memcached() {
    let hosts = Hosts::two();
    let server = hosts.program(0, "memcached");
    let server = server.args("-u memcache -U 0 -t 2").start();
    let server = server.listening(11211);
    let address = hosts.host(0).address();
    let client = |tool: &str, arguments: &str| {
        let client = hosts.program(1, tool);
        let client = client.args(&arguments.replace("SERVER", &format!("{address}:11211")));
        client.directory(hosts.folder()).run()
    };
    pattern_file(&hosts.folder().join("value"), 900_000);
    client("memccp", "--servers=SERVER value");
    client("memccat", "--servers=SERVER --file=copy value");
    same_content(&hosts.folder().join("value"), &hosts.folder().join("copy"));
    let output = client("memcaslap", "-s SERVER -T 2 -c 16 -x 20000");
    assert!(output.contains("get_misses: 0"), "{output}");
    let python = python(&hosts, 1, "memcached_client.py");
    assert_eq!(python.arg("11211").arg(&address).run(), "ok\n");
    server.stop(libc::SIGTERM);
    // Those of memcaslap; what the others store and fetch is bulk, which the kernel may carry.
    hosts.check_linked(Nic::Some, 16);
}

#[test]
fn postgresql() {
    let hosts = Hosts::two();
    let home = hosts.folder().join("home");
    let (uid, gid) = user_ids(postgres::USER);
    fs::create_dir(&home).expect("home");
    chown(&home, Some(uid), Some(gid)).expect("chown");
    let initdb = Program::new(postgres::program("initdb"), &home.join("log"));
    let initdb = initdb.user(postgres::USER).directory(&home);
    initdb
        .args("-A trust -N -E UTF8 --locale=C -D")
        .arg(home.join("data"))
        .run();
    let anybody = "host all all 10.77.0.0/24 trust\n";
    fs::write(home.join("data/pg_hba.conf"), anybody).expect("pg_hba.conf");
    let server = hosts.program(0, postgres::program("postgres"));
    let server = server.user(postgres::USER).directory(&home).arg("-D");
    let mut server = server
        .arg(home.join("data"))
        .args("-c listen_addresses=* -c fsync=off -c unix_socket_directories=")
        .start()
        .listening(5432);
    server.until("it is ready", |running| {
        running.errors().contains("ready to accept")
    });
    pgbench(&hosts);
    let finished = server.stop(libc::SIGINT);
    assert!(finished.status.success(), "{}", finished.errors);
    // Eight of each pgbench; the first table is filled in bulk, which the kernel may carry.
    hosts.check_linked(Nic::Some, 16);
}

/// Its transactions, and what they leave behind: every amount is booked three times and written down once.
fn pgbench(hosts: &Hosts) {
    let client = |name: &str, arguments: &str| {
        let client = hosts.program(1, postgres::program(name));
        let client = client.args(&format!("-h {} -U postgres", hosts.host(0).address()));
        client.args(arguments).env("PGDATABASE", postgres::USER)
    };
    client("pgbench", "-i -q -s 1").run();
    for options in ["-S -n -c 8 -j 2 -t 400", "-n -c 8 -j 2 -t 100"] {
        let output = client("pgbench", options).run();
        assert!(output.contains("failed transactions: 0 "), "{output}");
    }
    let sums = client("psql", "-X -q -A -t -c").arg(
        "select sum(abalance) = (select sum(bbalance) from pgbench_branches) \
         and sum(abalance) = (select sum(tbalance) from pgbench_tellers) \
         and sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts",
    );
    assert_eq!(sums.run(), "t\n");
}
