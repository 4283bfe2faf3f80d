//! Sets in sets, and sets that are polled.

use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLRDHUP};

use crate::set::Set;
use crate::world::*;

pub fn loops() {
    let sets: Vec<Set> = (0..7).map(|_| Set::new()).collect();
    let ends = warm();
    say("connection", sets[0].add(ends.far, EPOLLIN, 1));
    for depth in 1..7 {
        say(
            format!("depth {depth}"),
            sets[depth].add(sets[depth - 1].0, EPOLLIN, 1),
        );
    }
    say("in a circle", sets[0].add(sets[2].0, EPOLLIN, 1));
    send(ends.near, 1);
    say("through three", sets[3].now());
}

/// In which order a set is nested, filled, and its members warmed up makes no difference.
fn nested(early: bool, warm_first: bool, data_first: bool, outer_mode: i32, inner_mode: i32) {
    let ends = if warm_first { warm() } else { fresh() };
    let (outer, inner) = (Set::new(), Set::new());
    if early {
        outer.add(inner.0, EPOLLIN | outer_mode, 7);
    }
    if data_first {
        send(ends.near, 2);
        settle();
    }
    inner.add(ends.far, EPOLLIN | EPOLLRDHUP | inner_mode, 1);
    if !early {
        outer.add(inner.0, EPOLLIN | outer_mode, 7);
    }
    if data_first {
        say("outer", outer.now());
        recv(ends.far, 10);
        say("inner", inner.now());
    }
    if !warm_first {
        ends.warm_up();
    }
    say("outer quiet", outer.now());
    say("inner quiet", inner.now());
    for round in 0..3 {
        nested_round(round, &ends, &outer, &inner);
    }
    close(ends.near);
    // Of a fired one-shot the set may be told once for nothing.
    if inner_mode != EPOLLONESHOT {
        say("closed, outer", outer.now());
    }
    say("closed, inner", inner.now());
    // An edge-triggered outer set may be told twice: by the kernel socket, and by us.
    if outer_mode != EPOLLET {
        say("outer", outer.now());
    }
    say("taken out", outer.remove(inner.0));
    say("outer", outer.now());
}

/// Two bytes come, and are read one by one: what both sets say meanwhile.
fn nested_round(round: usize, ends: &Ends, outer: &Set, inner: &Set) {
    let polled = |set: &Set, events, time| bits(poll_one(set.0, events, time).into());
    send(ends.near, 2);
    say(format!("{round} outer"), outer.now());
    say(format!("{round} outer again"), outer.now());
    say(format!("{round} polled"), polled(inner, ALL, 0));
    say(format!("{round} selected"), select_one(inner.0, 0));
    say(
        format!("{round} outer polled"),
        polled(outer, libc::POLLIN, 10),
    );
    say(format!("{round} inner"), inner.now());
    say(format!("{round} outer after inner"), outer.now());
    say(format!("{round} polled"), polled(inner, ALL, 0));
    recv(ends.far, 1);
    say(format!("{round} one read, polled"), polled(inner, ALL, 0));
    recv(ends.far, 1);
    say(format!("{round} read, polled"), polled(inner, ALL, 0));
    say(format!("{round} read, outer"), outer.now());
    say(format!("{round} read, inner"), inner.now());
}

pub fn nested_sets() {
    for early in [false, true] {
        for warm_first in [false, true] {
            for data_first in [false, true] {
                say(
                    "early, warm first, data first",
                    format!("{early} {warm_first} {data_first}"),
                );
                nested(early, warm_first, data_first, 0, 0);
            }
        }
    }
}

pub fn nested_edges() {
    for (outer, inner) in [
        (EPOLLET, 0),
        (0, EPOLLET),
        (EPOLLET, EPOLLET),
        (0, EPOLLONESHOT),
    ] {
        say("modes", format!("{} {}", outer != 0, inner != 0));
        nested(true, true, false, outer, inner);
    }
}

/// A sleeper in poll, select or an outer set hears of a member of the polled set.
pub fn polled_set_wakes() {
    let ends = warm();
    let (outer, inner) = (Set::new(), Set::new());
    inner.add(ends.far, EPOLLIN, 1);
    outer.add(inner.0, EPOLLIN, 7);
    for round in 0..6 {
        let near = ends.near;
        let sender = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            send(near, 1)
        });
        let found = match round % 3 {
            0 => bits(poll_one(inner.0, libc::POLLIN, 5000).into()),
            1 => select_one(inner.0, 5000),
            _ => outer.wait(5000),
        };
        say(round, found);
        say("sent", sender.join().expect("sender"));
        say("inner", inner.now());
        recv(ends.far, 10);
        say("read", bits(poll_one(inner.0, libc::POLLIN, 20).into()));
    }
}
