//! Names of programs on another host: by the daemons, in two network namespaces.

use std::time::{Duration, Instant};

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::{Program, Running};
use tests::wait;

use super::{present, told};

/// What docs/native.md promises for a host that is lost.
const LOST: Duration = Duration::from_secs(15);

fn names(hosts: &Hosts, host: usize, words: &str) -> Program {
    let program = hosts.own(host, "names").without("LD_PRELOAD");
    program.args(words)
}

fn watcher(hosts: &Hosts, host: usize) -> Running {
    let mut watcher = names(hosts, host, "watch service=db how=tasks").start();
    watcher.prints("watches");
    watcher
}

/// A server of one host is called by its name from the other, and killed.
#[test]
fn a_call_by_name() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two();
    let watcher = watcher(&hosts, 1);
    let mut server = names(
        &hosts,
        0,
        "echo service=db instance=5 host=0.0.0.0 port=7000",
    )
    .start();
    server.prints("held");
    wait::until("it has appeared", || present(&watcher).len() == 1);
    let told_of = told(&watcher).pop().expect("an event");
    assert_eq!(told_of.pid, server.pid());
    assert_eq!(told_of.host, hosts.host(0).address());
    let called = names(&hosts, 1, "call service=db instance=5").run();
    let expected = format!("5 {} {}:7000 ", server.pid(), hosts.host(0).address());
    assert!(called.starts_with(&expected), "{called}");
    server.stop(libc::SIGKILL);
    wait::until("it has disappeared", || present(&watcher).is_empty());
}

/// The daemon of the watcher's own host, and that of the other: whatever is lost is told of, and comes back.
#[test]
fn daemons_are_killed() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two();
    let watcher = watcher(&hosts, 1);
    let mut holder = names(&hosts, 0, "hold service=db instance=1 host=::")
        .piped()
        .start();
    holder.prints("held");
    for host in [1, 0] {
        wait::until("it is there", || present(&watcher).len() == 1);
        hosts.kill_nicd(host);
        wait::until("it is gone", || present(&watcher).is_empty());
        hosts.start_nicd(host);
    }
    wait::until("it is there", || present(&watcher).len() == 1);
    drop(holder.succeed());
    wait::until("it is withdrawn", || present(&watcher).is_empty());
    assert_eq!(told(&watcher).len(), 6);

    let left = names(&hosts, 1, "range service=db").run();
    assert_eq!(left, "");
}

#[test]
fn two_users() {
    if kernel_only() {
        return;
    }
    super::etcd::two_users_see(&Hosts::two());
}

/// Without a word of its end: nothing that is sent to it arrives, and nothing comes back.
#[test]
fn a_host_is_lost() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::on_a_bridge(2);
    let watcher = watcher(&hosts, 1);
    let mut holder = names(&hosts, 0, "hold service=db instance=1 host=::")
        .piped()
        .start();
    holder.prints("held");
    wait::until("it is there", || present(&watcher).len() == 1);
    hosts.unplug(0);
    let since = Instant::now();
    wait::until("it is gone", || present(&watcher).is_empty());
    assert!(since.elapsed() < LOST, "{:?}", since.elapsed());
    hosts.plug(0);
    wait::until("it is there", || present(&watcher).len() == 1);
    drop(holder.succeed());
    wait::until("it is withdrawn", || present(&watcher).is_empty());
}
