//! Level, edge and one-shot: which events come, and that no others do.

use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, SHUT_WR};

use tests::sock::set_linger_zero;

use crate::set::Set;
use crate::world::*;

pub fn level() {
    let ends = warm();
    let set = Set::new();
    say("add", set.add(ends.far, EPOLLIN, 1));
    say("quiet", set.now());
    send(ends.near, 10);
    say("ten bytes", set.now());
    say("still", set.now());
    recv(ends.far, 4);
    say("six left", set.now());
    recv(ends.far, 100);
    say("read", set.now());
    say("ask for output", set.modify(ends.far, EPOLLOUT, 2));
    say("output", set.now());
    send(ends.near, 1);
    say("output only", set.now());
    say("ask for both", set.modify(ends.far, EPOLLIN | EPOLLOUT, 3));
    say("both", set.now());
    say("ask for nothing", set.modify(ends.far, 0, 4));
    say("nothing", set.now());
    say("remove", set.remove(ends.far));
    say("removed", set.now());
    say("add again", set.add(ends.far, EPOLLIN, 5));
    say("again", set.now());
    close(ends.near);
    say("closed", set.now());
    say(
        "ask for RDHUP",
        set.modify(ends.far, EPOLLIN | EPOLLRDHUP, 6),
    );
    say("closed", set.now());
    recv(ends.far, 100);
    say("read", set.now());
    close(ends.far);
    say("gone", set.now());
}

pub fn edge_input() {
    let ends = warm();
    let set = Set::new();
    say("add", set.add(ends.far, EPOLLIN | EPOLLRDHUP | EPOLLET, 1));
    say("quiet", set.now());
    send(ends.near, 10);
    say("ten bytes", set.now());
    say("told", set.now());
    recv(ends.far, 4);
    say("some read", set.now());
    send(ends.near, 1);
    say("one more", set.now());
    say("told", set.now());
    recv(ends.far, 100);
    say("all read", set.now());
    say("nothing there", recv(ends.far, 100));
    say("quiet", set.now());
    send(ends.near, 1);
    settle();
    send(ends.near, 1);
    say("two sends, one event", set.now());
    say("told", set.now());
    send(ends.near, 1);
    settle();
    recv(ends.far, 100);
    say("read before the wait", set.now());
    send(ends.near, 1);
    say(
        "re-armed unread",
        set.modify(ends.far, EPOLLIN | EPOLLRDHUP | EPOLLET, 2),
    );
    say("event", set.now());
    say(
        "re-armed",
        set.modify(ends.far, EPOLLIN | EPOLLRDHUP | EPOLLET, 3),
    );
    say("event", set.now());
    recv(ends.far, 100);
    say(
        "re-armed, nothing there",
        set.modify(ends.far, EPOLLIN | EPOLLRDHUP | EPOLLET, 4),
    );
    say("event", set.now());
    shutdown(ends.near, SHUT_WR);
    say("FIN", set.now());
    say("told", set.now());
    say("end", recv(ends.far, 10));
    say("told", set.now());
    send(ends.far, 10);
    settle();
    set_linger_zero(ends.near);
    close(ends.near);
    say("reset", set.now());
    say("told", set.now());
    say("error", recv(ends.far, 1));
    say("told", set.now());
}

/// The writer's own activity is no event; nor is the reader's.
pub fn edge_both_ways() {
    let ends = warm();
    let set = Set::new();
    let all = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;
    say("add far", set.add(ends.far, all, 1));
    say("add near", set.add(ends.near, all, 2));
    say("writable", set.now());
    say("told", set.now());
    send(ends.near, 100);
    say("data", set.now());
    say("told", set.now());
    recv(ends.far, 100);
    say("read", set.now());
    send(ends.far, 50);
    say("answer", set.now());
    send(ends.near, 7);
    say("next", set.now());
    recv(ends.near, 100);
    recv(ends.far, 100);
    say("read", set.now());
    send(ends.near, 3);
    settle();
    recv(ends.far, 100);
    say("read before the wait", set.now());
    say("told", set.now());
    shutdown(ends.far, SHUT_WR);
    say("FIN", set.now());
    send(ends.near, 5);
    say("data after FIN", set.now());
    shutdown(ends.near, SHUT_WR);
    say("both FIN", set.now());
    say("told", set.now());
}

pub fn edge_output() {
    let ends = warm();
    let set = Set::new();
    say("add", set.add(ends.near, EPOLLOUT | EPOLLET, 1));
    say("writable", set.now());
    say("told", set.now());
    let sent = fill(ends.near);
    say("full", set.now());
    say("left", drain(ends.far, sent));
    say("drained", set.now());
    say("told", set.now());
    let sent = fill(ends.near);
    say("full", set.now());
    say("re-arm", set.modify(ends.near, EPOLLOUT | EPOLLET, 2));
    say("full", set.now());
    say("left", drain(ends.far, sent));
    say("drained", set.now());
    say("told", set.now());
    send(ends.near, 100);
    recv(ends.far, 100);
    say("a little", set.now());
}

/// What lies unread does not make an event of a blocked send.
pub fn edge_blocked_with_unread_input() {
    let ends = warm();
    let set = Set::new();
    say("add", set.add(ends.near, EPOLLIN | EPOLLOUT | EPOLLET, 1));
    say("writable", set.now());
    send(ends.far, 10);
    say("input", set.now());
    let sent = fill(ends.near);
    say("full", set.now());
    say("full", set.now());
    say("left", drain(ends.far, sent));
    say("drained", set.now());
    say("told", set.now());
}

pub fn one_shot() {
    let ends = warm();
    let set = Set::new();
    let once = EPOLLIN | EPOLLONESHOT;
    say("add", set.add(ends.far, once, 1));
    send(ends.near, 10);
    say("event", set.now());
    say("disabled", set.now());
    send(ends.near, 10);
    say("disabled", set.now());
    say("re-arm", set.modify(ends.far, once, 2));
    say("event", set.now());
    say("disabled", set.now());
    recv(ends.far, 100);
    say("re-arm", set.modify(ends.far, once, 3));
    say("nothing there", set.now());
    send(ends.near, 1);
    say("event", set.now());
    close(ends.near);
    say("disabled at FIN", set.now());
    say("re-arm", set.modify(ends.far, once, 4));
    say("event", set.now());
    say("edge and one-shot", set.modify(ends.far, once | EPOLLET, 5));
    say("event", set.now());
    say("disabled", set.now());
    say("level", set.modify(ends.far, EPOLLIN, 6));
    say("event", set.now());
    say("event", set.now());
}

/// Readiness that comes while disabled shows at re-arming.
pub fn one_shot_output() {
    let ends = warm();
    let set = Set::new();
    let once = EPOLLOUT | EPOLLONESHOT;
    say("add", set.add(ends.near, once, 1));
    say("event", set.now());
    let sent = fill(ends.near);
    say("re-arm", set.modify(ends.near, once, 2));
    say("full", set.now());
    say("left", drain(ends.far, sent));
    say("event", set.now());
    say("disabled", set.now());
}

pub fn urgent_edge() {
    let ends = warm();
    let set = Set::new();
    say("add", set.add(ends.far, EPOLLIN | EPOLLPRI | EPOLLET, 1));
    send_urgent(ends.near);
    say("urgent", set.now());
    say("told", set.now());
    send(ends.near, 1);
    say("more", set.now());
    let level = Set::new();
    say("add", level.add(ends.far, EPOLLPRI, 1));
    say("level", level.now());
    recv(ends.far, 100);
    recv(ends.far, 100);
    say("read", level.now());
}

pub fn low_water_mark() {
    let ends = warm();
    let (level, edge) = (Set::new(), Set::new());
    set(ends.far, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 10);
    level.add(ends.far, EPOLLIN, 1);
    edge.add(ends.far, EPOLLIN | EPOLLET, 2);
    for round in 0..3 {
        send(ends.near, 6);
        say(
            format!("{round}: six"),
            format!("{} / {}", level.now(), edge.now()),
        );
        send(ends.near, 3);
        say(
            format!("{round}: nine"),
            format!("{} / {}", level.now(), edge.now()),
        );
        send(ends.near, 1);
        say(
            format!("{round}: ten"),
            format!("{} / {}", level.now(), edge.now()),
        );
        recv(ends.far, 100);
        say(
            format!("{round}: read"),
            format!("{} / {}", level.now(), edge.now()),
        );
    }
    send(ends.near, 4);
    say("four", format!("{} / {}", level.now(), edge.now()));
    set(ends.far, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 2);
    say("lowered", format!("{} / {}", level.now(), edge.now()));
    set(ends.far, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 5);
    say("raised", format!("{} / {}", level.now(), edge.now()));
    shutdown(ends.near, SHUT_WR);
    say("FIN", format!("{} / {}", level.now(), edge.now()));
}

/// A connection joins a set before it has left the kernel, and leaves it while it is a member. At that
/// moment an edge-triggered member may be told again of what is there.
pub fn member_before_it_moves() {
    let ends = fresh();
    let (level, edge, once) = (Set::new(), Set::new(), Set::new());
    for fd in [ends.near, ends.far] {
        level.add(fd, EPOLLIN, u64::from(fd == ends.near));
        edge.add(fd, EPOLLIN | EPOLLET, u64::from(fd == ends.near));
        once.add(fd, EPOLLIN | EPOLLONESHOT, u64::from(fd == ends.near));
    }
    for round in 0..20 {
        let show = |what: &str| {
            let (level, edge, once) = (level.now(), edge.now(), once.now());
            let edge = if round < 5 { "not shown" } else { &edge };
            say(
                format!("{round}: {what}"),
                format!("{level} / {edge} / {once}"),
            );
        };
        for (from, to) in [(ends.near, ends.far), (ends.far, ends.near)] {
            send(from, 10);
            show("sent");
            show("unread");
            recv(to, 3);
            show("some read");
            recv(to, 100);
            show("read");
            let data = u64::from(to == ends.near);
            once.modify(to, EPOLLIN | EPOLLONESHOT, data);
            show("re-armed");
        }
    }
}
