//! A group on two hosts: the members of each get what those of the other send by a relay, which may be killed.

use std::time::Duration;

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::Running;
use tests::wait;

use super::{await_told, finish_all, start, told};

fn member(hosts: &Hosts, host: usize, words: &str) -> Running {
    let program = hosts.own(host, "groups").without("LD_PRELOAD");
    start(program.args("member service=db host=0.0.0.0").args(words))
}

#[test]
fn three_on_each() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two().eager();
    for words in ["pause=100", "pause=0 ring=4096", "pause=1000 len=10000"] {
        let members: Vec<Running> = (0..6).map(|at| member(&hosts, at % 2, words)).collect();
        await_told(&members, '+', 5);
        std::thread::sleep(Duration::from_millis(500));
        for [joined, failed, messages] in finish_all(members) {
            assert_eq!((joined, failed), (5, 0));
            assert!(messages > 50, "{messages}");
        }
    }
}

/// One after the other is killed on one host: whoever relays, the last gets everything.
#[test]
fn relays_are_killed() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two().eager();
    for words in ["pause=50", "pause=0 ring=8192 len=1000"] {
        let mut members: Vec<Running> = (0..2).map(|_| member(&hosts, 0, words)).collect();
        let mut others: Vec<Running> = (0..4).map(|_| member(&hosts, 1, words)).collect();
        await_told(&members, '+', 5);
        await_told(&others, '+', 5);
        while others.len() > 1 {
            std::thread::sleep(Duration::from_millis(100));
            others.remove(0).stop(libc::SIGKILL);
        }
        members.append(&mut others);
        await_told(&members, '!', 3);
        // Also who joins then gets everything.
        members.push(member(&hosts, 1, words));
        wait::until("it has joined", || told(&members[3], '+') == 3);
        std::thread::sleep(Duration::from_millis(500));
        for (at, [joined, failed, messages]) in finish_all(members).into_iter().enumerate() {
            let expected = if at == 3 { (3, 0) } else { (6, 3) };
            assert_eq!((joined, failed), expected);
            assert!(messages > 50, "{messages}");
        }
    }
}
