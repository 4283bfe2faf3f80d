//! A real etcd cluster of three members.

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Members};
use tests::wait;

use super::assert_private;

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
    let members = Members::start(&hosts, 3);
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
    let says = hosts.nicd_says(0);
    assert!(
        says.contains("it is not among the peers any more"),
        "{says}"
    );
    let status = hosts.source_status(3);
    assert!(status.cure.contains("nicd join"), "{status:?}");
    for host in 0..4 {
        let says = hosts.nicd_says(host);
        assert!(says.matches("the last peers stay").count() <= 1, "{says}");
    }
}
