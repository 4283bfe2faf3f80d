//! Sets and what is registered in them: several sets of one connection, duplicates of a set, errors, the
//! program's own data, members that leave.

use libc::{EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLWAKEUP};

use crate::set::Set;
use crate::world::*;

pub fn several_sets() {
    let ends = warm();
    let sets: Vec<Set> = (0..12).map(|_| Set::new()).collect();
    let modes = [0, EPOLLET, EPOLLONESHOT];
    for (set, number) in sets.iter().zip(0..) {
        set.add(ends.far, EPOLLIN | modes[number % 3], number as u64);
    }
    let show = |what: &str| {
        settle();
        let found: Vec<String> = sets.iter().map(|set| set.wait(0)).collect();
        say(what, found.join(" / "));
    };
    show("quiet");
    send(ends.near, 1);
    show("a byte");
    show("again");
    recv(ends.far, 10);
    show("read");
    send(ends.near, 1);
    show("a byte");
    close(ends.near);
    show("closed");
    show("again");
}

pub fn duplicated_set() {
    let ends = warm();
    let set = Set::new();
    let other = set.dup();
    set.add(ends.far, EPOLLIN, 1);
    say("twice", other.add(ends.far, EPOLLIN, 2));
    send(ends.near, 1);
    say("by one", set.now());
    say("by the other", other.now());
    say(
        "changed by the other",
        other.modify(ends.far, EPOLLIN | EPOLLET, 3),
    );
    say("by one", set.now());
    say("by the other", other.now());
    set.close();
    send(ends.near, 1);
    say("one closed", other.now());
    say("changed", other.modify(ends.far, EPOLLIN, 4));
    say("changed", other.now());
    say("removed", other.remove(ends.far));
    say("removed", other.now());
}

pub fn errors() {
    let ends = warm();
    let set = Set::new();
    let null = std::ptr::null_mut();
    say("modify a stranger", set.modify(ends.far, EPOLLIN, 1));
    say("remove a stranger", set.remove(ends.far));
    say("add", set.add(ends.far, EPOLLIN, 1));
    say("add again", set.add(ends.far, EPOLLOUT, 2));
    say("operation", set.control(77, ends.far, EPOLLIN, 1));
    // SAFETY: null is what this is about.
    let no_event = unsafe { libc::epoll_ctl(set.0, libc::EPOLL_CTL_MOD, ends.far, null) };
    say("no event", result(no_event as isize));
    say("itself", set.add(set.0, EPOLLIN, 1));
    say("not a set", Set(ends.near).add(ends.far, EPOLLIN, 1));
    say("no such set", Set(-1).add(ends.far, EPOLLIN, 1));
    say("no such member", set.add(-1, EPOLLIN, 1));
    let file = std::fs::File::open("/proc/self/exe").expect("open");
    say(
        "a file",
        set.add(std::os::fd::AsRawFd::as_raw_fd(&file), EPOLLIN, 1),
    );
    say(
        "exclusive change",
        set.modify(ends.far, EPOLLIN | EPOLLEXCLUSIVE, 1),
    );
    say(
        "exclusive once",
        set.add(ends.near, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1),
    );
    say("exclusive", set.add(ends.near, EPOLLIN | EPOLLEXCLUSIVE, 1));
    say("change exclusive", set.modify(ends.near, EPOLLIN, 1));
    say("wakeup", set.modify(ends.far, EPOLLIN | EPOLLWAKEUP, 1));
    let none = |max| {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the first is refused, the others have room for one.
        result(unsafe { libc::epoll_wait(set.0, &mut event, max, 0) } as isize)
    };
    say("room for none", none(0));
    say("room for less", none(-1));
    say("room for too many", none(i32::MAX));
    say("room for one", none(1));
    say("wait on a socket", {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one.
        result(unsafe { libc::epoll_wait(ends.far, &mut event, 1, 0) } as isize)
    });
    send(ends.near, 1);
    say("the first registration holds", set.now());
}

/// Data of the program's own looks like anything.
pub fn any_data() {
    let ends = warm();
    let set = Set::new();
    let (mut pipe, tag) = ([0; 2], 0xa5c3_96e1u64 << 32);
    // SAFETY: room for two.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let values = [
        0,
        1,
        u64::MAX,
        tag,
        tag | u64::from(u32::MAX),
        tag | ends.far as u64,
    ];
    say("add", set.add(ends.far, EPOLLIN, 0));
    say("pipe", set.add(pipe[1], EPOLLOUT, 0));
    send(ends.near, 1);
    for value in values {
        for other in values {
            say("change", set.modify(ends.far, EPOLLIN, value));
            say("change", set.modify(pipe[1], EPOLLOUT, other));
            say(format!("{value:x} {other:x}"), set.all());
        }
    }
    say("remove", set.remove(pipe[1]));
    for other in values {
        say("add", set.add(pipe[1], EPOLLOUT | EPOLLONESHOT, other));
        say(format!("{other:x}"), set.all());
        say(format!("{other:x}"), set.all());
        say("remove", set.remove(pipe[1]));
    }
}

/// Members that are ready leave the set, and come back, while others of it wait to be told of: each is
/// told once in a wait, and an edge or a shot once altogether.
pub fn told_once_when_another_leaves() {
    let all: Vec<Ends> = (0..6).map(|_| warm()).collect();
    for mode in [0, EPOLLET, EPOLLONESHOT] {
        let set = Set::new();
        for (number, ends) in (0..).zip(&all) {
            set.add(ends.far, EPOLLIN | mode, number);
        }
        for (number, leaver) in all.iter().enumerate() {
            for ends in &all {
                send(ends.near, 1);
            }
            settle();
            say(mode, format!("{} first", set.take(2, 0).len()));
            set.remove(leaver.far);
            let mut told: Vec<u64> = Vec::new();
            if number % 2 == 1 {
                set.add(leaver.far, EPOLLIN | mode, 10 + number as u64);
            }
            for _ in 0..4 {
                let found = set.take(64, 0);
                let mut once: Vec<u64> = found.iter().map(|(data, _)| *data).collect();
                once.dedup();
                assert_eq!(once.len(), found.len(), "twice in one wait");
                told.extend(once);
            }
            told.sort_unstable();
            if mode == 0 {
                told.dedup();
            }
            // Whom the first wait told of is not said.
            let again = told.windows(2).any(|pair| pair[0] == pair[1]);
            say(
                format!("{mode} without {number}"),
                format!("{} told, again {again}", told.len()),
            );
            for ends in &all {
                recv(ends.far, 100);
            }
            set.remove(leaver.far);
            set.add(leaver.far, EPOLLIN | mode, number as u64);
            for (number, ends) in (0..).zip(&all) {
                set.modify(ends.far, EPOLLIN | mode, number);
            }
            say("read", set.now());
        }
        set.close();
    }
}

/// Two one-shot members with the same data, of which one leaves before the other's shot is fired and
/// its connection accelerated.
pub fn twin_shots() {
    const EVENTS: i32 = EPOLLIN | EPOLLONESHOT;
    for (first_leaves, closes) in [(false, false), (true, false), (false, true), (true, true)] {
        let (one, two, set) = (fresh(), fresh(), Set::new());
        set.add(one.far, EVENTS, 7);
        set.add(two.far, EVENTS, 7);
        let (leaver, stayer) = if first_leaves {
            (&one, &two)
        } else {
            (&two, &one)
        };
        match closes {
            true => close(leaver.far),
            false => drop(set.remove(leaver.far)),
        }
        send(stayer.near, 1);
        say("shot", set.now());
        recv(stayer.far, 10);
        stayer.warm_up();
        send(stayer.near, 1);
        say("fired", set.now());
        set.modify(stayer.far, EVENTS, 8);
        say("re-armed", set.now());
        say("once", set.now());
        set.close();
    }
}
