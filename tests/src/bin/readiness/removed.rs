//! Members that are removed, and added again or not.

use libc::{EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT, EPOLLOUT};
use tests::sock::{Forked, fork, wait_child};

use crate::set::Set;
use crate::world::*;

/// A connection in a set, as it is after it was removed.
fn removed(events: i32) -> (Ends, Set) {
    let (ends, set) = (warm(), Set::new());
    set.add(ends.far, events, 1);
    say("added", set.now());
    say("removed", set.remove(ends.far));
    (ends, set)
}

/// As event loops do it with each request.
pub fn added_again() {
    for mode in [0, EPOLLET, EPOLLONESHOT] {
        let (ends, set) = removed(EPOLLIN | mode);
        say("removed again", set.remove(ends.far));
        say("modified", set.modify(ends.far, EPOLLIN, 2));
        send(ends.near, 1);
        say("a byte", set.now());
        say("added", set.add(ends.far, EPOLLIN | mode, 3));
        say("added twice", set.add(ends.far, EPOLLIN | mode, 4));
        say("now", set.now());
        say("again", set.now());
        recv(ends.far, 10);
        set.remove(ends.far);
        set.add(ends.far, EPOLLOUT | mode, 5);
        say("output", set.now());
        set.remove(ends.far);
        say("exclusive", set.add(ends.far, EPOLLIN | EPOLLEXCLUSIVE, 6));
        send(ends.near, 1);
        say("a byte", set.now());
        set.remove(ends.far);
        close(ends.near);
        say("closed", set.now());
        set.add(ends.far, EPOLLIN | mode, 7);
        say("added", set.now());
    }
}

/// From one set to the next, with bytes that come for neither.
pub fn moved() {
    let (ends, first) = removed(EPOLLIN);
    let sets = [first, Set::new(), Set::new()];
    for (round, set) in sets.iter().cycle().take(12).enumerate() {
        set.add(ends.far, EPOLLIN, round as u64);
        send(ends.near, 1);
        let found: Vec<String> = sets.iter().map(|set| set.now()).collect();
        say("sets", found.join(" / "));
        set.remove(ends.far);
        recv(ends.far, 10);
    }
}

/// A set that is waited for shows nothing of them.
pub fn in_an_inner_set() {
    let (ends, set) = removed(EPOLLIN);
    let outer = Set::new();
    outer.add(set.0, EPOLLIN, 9);
    send(ends.near, 1);
    say("outer", outer.now());
    say("poll", poll_one(set.0, libc::POLLIN, 0));
    set.add(ends.far, EPOLLIN, 2);
    say("outer, added", outer.now());
    set.remove(ends.far);
    say("outer, removed", outer.now());
    shutdown(ends.near, libc::SHUT_WR);
    say("outer, half-closed", outer.now());
}

/// The connection goes back to the kernel meanwhile, or its number to another.
pub fn changed_meanwhile() {
    let (ends, set) = removed(EPOLLIN);
    send_urgent(ends.near);
    say("urgent", set.now());
    say("added", set.add(ends.far, EPOLLIN, 2));
    say("now", set.now());

    let (ends, set) = removed(EPOLLIN);
    let other = dup(ends.far);
    close(ends.far);
    send(ends.near, 1);
    say("number closed", set.now());
    say("the other", set.add(other, EPOLLIN, 3));
    say("now", set.now());
    let next = warm();
    // SAFETY: plain numbers.
    let replaced = unsafe { libc::dup2(next.far, ends.far) };
    say("replaced", replaced == ends.far);
    send(next.near, 1);
    say("not a member", set.modify(ends.far, EPOLLIN, 4));
    say("added", set.add(ends.far, EPOLLIN, 5));
    say("now", set.all());
}

/// A child uses the set; so does its parent, then.
pub fn used_by_a_child() {
    let (ends, set) = removed(EPOLLIN);
    match fork().expect("fork") {
        Forked::Child => {
            send(ends.near, 1);
            say("child", set.now());
            say("child adds", set.add(ends.far, EPOLLIN, 2));
            say("child", set.now());
            std::process::exit(0);
        }
        Forked::Parent(pid) => assert_eq!(wait_child(pid).expect("wait"), 0, "child"),
    }
    say("parent", set.now());
    say("parent removes", set.remove(ends.far));
    say("parent adds", set.add(ends.far, EPOLLIN, 3));
    say("parent", set.now());
}
