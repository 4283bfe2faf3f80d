//! A real etcd cluster of three members.

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Members};
use tests::wait;

use super::{assert_private, line};

fn join(hosts: &Hosts, host: usize, source: &str, words: &str) -> String {
    let words = format!(
        "join --name host{host} --address {} {words}",
        hosts.host(host).address()
    );
    hosts.nicd(host, &words, source).run()
}

/// One member is killed, a host comes; another member is killed, so that nobody can be asked; a daemon starts then; all come
/// back, and hosts leave.
#[test]
fn members_are_killed() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::unacquainted(4);
    let members = Members::start(&hosts, 3, false);
    let source = members.source();
    for host in 0..3 {
        join(&hosts, host, &source, "");
    }
    (0..3).for_each(|host| hosts.start_nicd_from(host, &source, ""));
    hosts.wait_until_acquainted(&[0, 1, 2], 2);
    assert_private(&hosts.state_file(0));

    members.kill(0);
    join(&hosts, 3, &source, "");
    hosts.start_nicd_from(3, &source, "");
    hosts.wait_until_acquainted(&[0, 1, 2, 3], 3);

    // One member that is gone may cost a host a failure or several.
    let complaints = |host: usize| {
        let says = hosts.nicd_says(host);
        says.matches("the last peers stay").count()
    };
    let before = (0..4).map(complaints);
    let mut before: Vec<usize> = before.collect();
    members.kill(1);
    wait::until("the loss is noticed", || !hosts.source_status(2).in_touch);
    let status = hosts.source_status(2);
    assert!(
        !status.why.is_empty() && status.cure.contains("members"),
        "{status:?}"
    );
    assert_eq!(status.used, 4);
    hosts.stop_nicd(2);
    hosts.start_nicd_from(2, &source, "");
    before[2] = 0;
    let says = hosts.nicd_says(2);
    assert!(says.contains("begins with what it said"), "{says}");
    hosts.wait_until_acquainted(&[0, 1, 2, 3], 3);

    [0, 1].iter().for_each(|member| members.launch(*member));
    [0, 1].iter().for_each(|member| members.wait_for(*member));
    wait::until("all are in touch again", || {
        (0..4).all(|host| hosts.source_status(host).in_touch)
    });
    hosts.nicd(3, "leave --name host3", &source).run();
    hosts.wait_until_acquainted(&[0, 1, 2], 2);
    hosts.wait_until_acquainted(&[3], 0);
    let says = hosts.nicd_says(3);
    assert!(says.contains("it has left the cluster"), "{says}");
    let status = hosts.source_status(3);
    assert!(status.cure.contains("nicd join"), "{status:?}");
    for (host, before) in before.into_iter().enumerate() {
        let says = hosts.nicd_says(host);
        assert!(complaints(host) <= before + 1, "{says}");
    }
}

/// What makes no sense, what is another host's, and what was there before; an empty answer; a lease.
#[test]
fn nonsense() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::unacquainted(3);
    let members = Members::start(&hosts, 1, false);
    let source = members.source();
    for host in [0, 1] {
        join(&hosts, host, &source, "");
        hosts.start_nicd_from(host, &source, "");
    }
    hosts.wait_until_acquainted(&[0, 1], 1);
    let theft = line(&hosts, 2).replace(&hosts.host(2).address(), &hosts.host(1).address());
    let long = "x".repeat(100_000);
    let odd = ["nonsense", "", "10.0.0.1\n10.0.0.2", &long, &theft];
    for (number, value) in odd.into_iter().enumerate() {
        members.etcdctl(&["put", &format!("/ulsock/peers/a{number}"), "--", value]);
    }
    wait::until("all of it is refused", || {
        hosts.source_status(0).refused == odd.len()
    });
    let status = hosts.source_status(0);
    assert!(status.shown[4].contains("host1"), "{status:?}");
    hosts.stop_nicd(0);
    hosts.start_nicd_from(0, &source, "");
    hosts.wait_until_acquainted(&[0, 1], 1);

    let words = format!("join --name host1 --address {}", hosts.host(2).address());
    let refused = hosts.nicd(2, &words, &source).start().wait();
    assert!(
        refused.errors.contains("another host"),
        "{}",
        refused.errors
    );
    let refused = hosts.nicd(2, "leave --name host1", &source).start().wait();
    assert!(
        refused.errors.contains("another host"),
        "{}",
        refused.errors
    );

    let words = format!(
        "join --name host2 --address {} --lease 5",
        hosts.host(2).address()
    );
    let mut leased = hosts.nicd(2, &words, &source).start();
    leased.prints("host2: ");
    hosts.start_nicd_from(2, &source, "");
    hosts.wait_until_acquainted(&[0, 1, 2], 2);
    leased.stop(libc::SIGKILL);
    hosts.wait_until_acquainted(&[0, 1], 1);

    members.etcdctl(&["del", "--prefix", "/ulsock/peers/"]);
    hosts.wait_until_acquainted(&[0, 1, 2], 0);
    [0, 1]
        .iter()
        .for_each(|host| drop(join(&hosts, *host, &source, "")));
    hosts.wait_until_acquainted(&[0, 1], 1);
}

/// With certificates; each host may write its own entry, and read all.
#[test]
fn users() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::unacquainted(2);
    let members = Members::start(&hosts, 1, true);
    let source = members.source();
    assert!(source.starts_with("etcds://"));
    for words in [
        "user add root:word",
        "user grant-role root root",
        "user add host --no-password",
        "role add host",
        "role grant-permission host --prefix=true read /ulsock/peers/",
        "role grant-permission host readwrite /ulsock/peers/host0",
        "user grant-role host host",
    ] {
        members.etcdctl(&words.split(' ').collect::<Vec<_>>());
    }
    let (key, words) = ("/ulsock/peers/host1", members.words());
    members.etcdctl(&["put", key, "--", &line(&hosts, 1)]);
    members.etcdctl(&["auth", "enable"]);
    join(&hosts, 0, &source, &words);
    for host in [0, 1] {
        hosts.start_nicd_from(host, &source, &words);
    }
    hosts.wait_until_acquainted(&[0, 1], 1);
    let address = hosts.host(1).address();
    let join = format!("join --name host2 --address {address} {words}");
    let denied = hosts.nicd(1, &join, &source).start().wait();
    assert!(
        denied.errors.contains("permission denied"),
        "{}",
        denied.errors
    );
}
