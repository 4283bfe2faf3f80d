//! Names in etcd: hosts that do not know each other but for a real etcd server, on the last of them.

use std::time::{Duration, Instant};

use tests::ends::kernel_only;
use tests::hosts::{Guard, Hosts};
use tests::program::{Program, Running};
use tests::wait;

use super::{present, told};

/// What docs/native.md promises for a host that is lost.
const LOST: Duration = Duration::from_secs(17);

fn names(hosts: &Hosts, host: usize, words: &str) -> Program {
    let program = hosts.own(host, "names").without("LD_PRELOAD");
    program.args(words)
}

fn watcher(hosts: &Hosts, host: usize) -> Running {
    let mut watcher = names(hosts, host, "watch service=db how=tasks").start();
    watcher.prints("watches");
    watcher
}

fn holder(hosts: &Hosts, host: usize, instance: u32) -> Running {
    let words = format!("hold service=db instance={instance} host=0.0.0.0");
    let mut holder = names(hosts, host, &words).piped().start();
    holder.prints("held");
    holder
}

fn wait_for(watcher: &Running, count: usize) {
    wait::until(&format!("{count} are there"), || {
        present(watcher).len() == count
    });
}

/// Entries of names, each key with its value.
fn entries(hosts: &Hosts) -> String {
    hosts.etcdctl(&["get", "--prefix", "/ulsock/names/"])
}

#[test]
fn a_call_by_name() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(3, Guard::Nobody);
    let watchers = [0, 1, 2].map(|host| watcher(&hosts, host));
    let words = "echo service=db instance=5 host=0.0.0.0 port=7000";
    let mut server = names(&hosts, 0, words).start();
    server.prints("held");
    watchers.iter().for_each(|watcher| wait_for(watcher, 1));
    let told_of = told(&watchers[1]).pop().expect("an event");
    assert_eq!(told_of.pid, server.pid());
    assert_eq!(told_of.host, hosts.host(0).address());
    let called = names(&hosts, 1, "call service=db instance=5").run();
    let address = hosts.host(0).address();
    let expected = format!("5 {} {address}:7000 ", server.pid());
    assert!(called.starts_with(&expected), "{called}");
    let expected = format!(
        "/ulsock/names/{address}/db/5/0\n{{\"version\":1,\"address\":\"{address}:7000\",\"pid\":{}}}\n",
        server.pid()
    );
    assert_eq!(entries(&hosts), expected);
    let [here, there] = [0, 1].map(|host| hosts.store_status(host));
    assert_eq!((here.ours, here.theirs, here.ignored), (1, 0, 0));
    assert_eq!((there.ours, there.theirs, there.ignored), (0, 1, 0));
    server.stop(libc::SIGKILL);
    watchers.iter().for_each(|watcher| wait_for(watcher, 0));
    assert_eq!(entries(&hosts), "");
}

/// A daemon that is started anew in time is not missed; one that stays away is, and so is a host without a network.
#[test]
fn hosts_are_lost() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(3, Guard::Nobody);
    let watcher = watcher(&hosts, 1);
    let holders = [0, 1].map(|host| holder(&hosts, host, host as u32));
    let gone = holder(&hosts, 0, 7);
    wait_for(&watcher, 3);
    hosts.kill_nicd(0);
    gone.stop(libc::SIGKILL);
    hosts.start_nicd(0);
    wait_for(&watcher, 2);
    assert_eq!(
        told(&watcher).len(),
        4,
        "the other one was there throughout"
    );

    hosts.kill_nicd(0);
    let since = Instant::now();
    wait_for(&watcher, 1);
    assert!(since.elapsed() < LOST, "{:?}", since.elapsed());
    hosts.start_nicd(0);
    wait_for(&watcher, 2);

    let far = super::etcd::watcher(&hosts, 0);
    wait_for(&far, 2);
    hosts.unplug(0);
    let since = Instant::now();
    wait_for(&watcher, 1);
    wait_for(&far, 1);
    assert!(since.elapsed() < LOST, "{:?}", since.elapsed());
    hosts.plug(0);
    wait_for(&watcher, 2);
    wait_for(&far, 2);
    holders.into_iter().for_each(|it| drop(it.succeed()));
    wait_for(&watcher, 0);
}

/// Names are there for a while without it, and again when it is back, with what it knew and without.
#[test]
fn etcd_is_killed() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(3, Guard::Nobody);
    let watchers = [0, 1].map(|host| watcher(&hosts, host));
    let mut holders = vec![holder(&hosts, 0, 0), holder(&hosts, 1, 1)];
    watchers.iter().for_each(|watcher| wait_for(watcher, 2));
    hosts.kill_etcd();
    holders.push(holder(&hosts, 0, 2));
    wait_for(&watchers[0], 3);
    wait::until("the loss is noticed", || !hosts.store_status(1).in_touch);
    assert!(!hosts.store_status(1).why.is_empty());
    hosts.start_etcd();
    watchers.iter().for_each(|watcher| wait_for(watcher, 3));
    for watcher in &watchers {
        assert_eq!(told(watcher).len(), 3, "nothing was gone meanwhile");
    }

    hosts.kill_etcd();
    hosts.forget_etcd();
    let since = Instant::now();
    wait_for(&watchers[0], 2);
    wait_for(&watchers[1], 1);
    assert!(since.elapsed() < LOST, "{:?}", since.elapsed());
    hosts.start_etcd();
    watchers.iter().for_each(|watcher| wait_for(watcher, 3));
    for host in [0, 1] {
        let says = hosts.nicd_says(host);
        assert_eq!(says.matches("out of reach").count(), 2, "{says}");
        assert_eq!(says.matches("names are in etcd").count(), 3, "{says}");
    }
    holders.into_iter().for_each(|it| drop(it.succeed()));
    watchers.iter().for_each(|watcher| wait_for(watcher, 0));
}

/// etcd is not there yet when the daemons start.
#[test]
fn etcd_comes_late() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(2, Guard::Nobody);
    hosts.kill_etcd();
    for host in [0, 1] {
        hosts.stop_nicd(host);
        hosts.start_nicd(host);
    }
    let watchers = [0, 1].map(|host| watcher(&hosts, host));
    let _holder = holder(&hosts, 0, 0);
    wait_for(&watchers[0], 1);
    hosts.start_etcd();
    wait_for(&watchers[1], 1);
}

/// Whatever somebody puts there is ignored, and said; names go on.
#[test]
fn nonsense() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(2, Guard::Nobody);
    let watcher = watcher(&hosts, 1);
    let kept = holder(&hosts, 0, 1);
    wait_for(&watcher, 1);
    let own = hosts.host(0).address();
    let value = |address: &str| format!("{{\"version\":1,\"address\":\"{address}:7\",\"pid\":1}}");
    let long = "x".repeat(100_000);
    let host1 = hosts.host(1).address();
    let key = |host: &str, rest: &str| format!("/ulsock/names/{host}/{rest}");
    let odd = [
        (key("", ""), "x".to_owned()),
        (key("10.77.0.9", "db/9/0"), String::new()),
        (key("10.77.0.9", "db/9/0"), long.clone()),
        (key("10.77.0.9", "../9/0"), value("10.77.0.9")),
        (key("10.77.0.9", &format!("{long}/9/0")), value("10.77.0.9")),
        (key("10.77.0.9", "db/9/0"), value("10.77.0.8")),
        // As if this host had another address, and another host that of this one.
        (key("10.77.0.9", "db/9/0"), value(&host1)),
        (key("127.0.0.1", "db/9/0"), value("127.0.0.1")),
    ];
    for (number, (key, value)) in odd.iter().enumerate() {
        hosts.etcdctl(&["put", key, value]);
        wait::until("it is ignored", || {
            hosts.store_status(1).ignored == number as u64 + 1
        });
    }
    assert_eq!(present(&watcher).len(), 1);
    let says = hosts.nicd_says(1);
    assert_eq!(says.matches("ignored").count(), 1, "{says}");
    // A host that we do not know otherwise has its own address.
    hosts.etcdctl(&["put", &key("10.77.0.9", "db/9/0"), &value("10.77.0.9")]);
    wait_for(&watcher, 2);
    hosts.etcdctl(&["put", &key("10.77.0.9", "db/9/0"), "nonsense"]);
    wait_for(&watcher, 1);

    // What is not so is put right: of the host's own names.
    hosts.etcdctl(&["put", &key(&own, "db/8/0"), &value(&own)]);
    wait_for(&watcher, 2);
    wait_for(&watcher, 1);
    hosts.etcdctl(&["del", "--prefix", &key(&own, "")]);
    wait_for(&watcher, 0);
    wait_for(&watcher, 1);
    // A daemon that has to read all of it.
    hosts.stop_nicd(1);
    wait_for(&watcher, 0);
    hosts.start_nicd(1);
    wait_for(&watcher, 1);
    drop(kept.succeed());
    wait_for(&watcher, 0);
}

/// More than go into one answer.
#[test]
fn long_values() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(2, Guard::Nobody);
    let script = "head -c 1400000 /dev/zero | tr '\\0' x >value; for n in 1 2 3 4 5 6; do
        etcdctl --endpoints $0 put /ulsock/names/$n <value || exit 1; done";
    let endpoint = format!("http://{}:2379", hosts.host(1).address());
    let shell = hosts.plain(1, "sh").env("ETCDCTL_API", "3");
    let shell = shell.directory(hosts.folder()).arg("-c").arg(script);
    shell.arg(&endpoint).run();
    let _holder = holder(&hosts, 0, 1);
    let watcher = watcher(&hosts, 1);
    wait_for(&watcher, 1);
    hosts.stop_nicd(1);
    hosts.start_nicd(1);
    wait::until("all is read", || hosts.store_status(1).ignored >= 6);
    wait_for(&watcher, 1);
}

/// A user sees its own names and root's, wherever they are.
#[test]
fn two_users() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(2, Guard::Nobody);
    two_users_see(&hosts);
}

/// Also where the daemons tell each other.
pub fn two_users_see(hosts: &Hosts) {
    let run = |host: usize, user: &str, words: &str| {
        let program = names(hosts, host, words);
        program.user(user).without("LD_PRELOAD")
    };
    let mut holders = ["root", "nobody"].map(|user| {
        let words = "hold service=db instance=1 host=0.0.0.0";
        run(0, user, words).piped().start()
    });
    holders.iter_mut().for_each(|it| it.prints("held"));
    let [root, nobody] = [holders[0].pid(), holders[1].pid()];
    let seen = |user: &str| {
        let range = run(1, user, "range service=db").run();
        let pids = range.lines().map(|line| {
            let pid = line.split(' ').nth(1).expect("a pid");
            pid.parse().expect("a number")
        });
        let mut pids: Vec<u32> = pids.collect();
        pids.sort();
        pids
    };
    let mut both = vec![root, nobody];
    both.sort();
    wait::until("both are told", || seen("nobody") == both);
    assert_eq!(seen("root"), [root]);
    let [root_holder, nobody_holder] = holders;
    nobody_holder.stop(libc::SIGKILL);
    wait::until("one is gone", || seen("nobody") == [root]);
    drop(root_holder.succeed());
    wait::until("nobody is there", || seen("nobody").is_empty());
}

#[test]
fn certificates() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(2, Guard::Certificates);
    let watcher = watcher(&hosts, 1);
    let holder = holder(&hosts, 0, 1);
    wait_for(&watcher, 1);
    drop(holder.succeed());
    wait_for(&watcher, 0);
}

/// In etcd: each host can write its own names alone.
#[test]
fn users_of_etcd() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::sharing_etcd(2, Guard::Users);
    let watcher = watcher(&hosts, 1);
    let holder = holder(&hosts, 0, 1);
    wait_for(&watcher, 1);
    let key = format!("/ulsock/names/{}/db/1/0", hosts.host(0).address());
    let stranger = hosts.etcdctl_as("host1").arg("del").arg(&key);
    let refused = stranger.start().wait().errors;
    assert!(refused.contains("permission denied"), "{refused}");
    drop(holder.succeed());
    wait_for(&watcher, 0);
}
