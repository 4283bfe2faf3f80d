//! Sets in relation to each other and to numbers: several, nested, polled, duplicated; closing and
//! using a number again.

use libc::{EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, EPOLLWAKEUP};

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
        send(ends.near, 2);
        say(format!("{round} outer"), outer.now());
        say(format!("{round} outer again"), outer.now());
        say(
            format!("{round} polled"),
            bits(poll_one(inner.0, ALL, 0).into()),
        );
        say(format!("{round} selected"), select_one(inner.0, 0));
        say(
            format!("{round} outer polled"),
            bits(poll_one(outer.0, libc::POLLIN, 10).into()),
        );
        say(format!("{round} inner"), inner.now());
        say(format!("{round} outer after inner"), outer.now());
        say(
            format!("{round} polled"),
            bits(poll_one(inner.0, ALL, 0).into()),
        );
        recv(ends.far, 1);
        say(
            format!("{round} one read, polled"),
            bits(poll_one(inner.0, ALL, 0).into()),
        );
        recv(ends.far, 1);
        say(
            format!("{round} read, polled"),
            bits(poll_one(inner.0, ALL, 0).into()),
        );
        say(format!("{round} read, outer"), outer.now());
        say(format!("{round} read, inner"), inner.now());
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

/// A number is closed while it is a member; a duplicate keeps the registration alive.
pub fn closed_with_duplicate() {
    for mode in [0, EPOLLET, EPOLLONESHOT] {
        let ends = warm();
        let set = Set::new();
        set.add(ends.far, EPOLLIN | EPOLLRDHUP | mode, 1);
        let other = dup(ends.far);
        close(ends.far);
        send(ends.near, 1);
        say("data", set.now());
        say("again", set.now());
        say(
            "change by the closed number",
            set.modify(ends.far, EPOLLIN, 9),
        );
        say("remove by the duplicate", set.remove(other));
        recv(other, 10);
        say("read", set.now());
        let new = warm();
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::dup2(new.far, ends.far) }, ends.far);
        say(
            "its new meaning is no member",
            set.modify(ends.far, EPOLLIN, 2),
        );
        say("until added", set.add(ends.far, EPOLLIN, 2));
        say("duplicate", set.add(other, EPOLLIN | mode, 3));
        send(ends.near, 1);
        say("three", set.all());
        recv(other, 10);
        close(other);
        say("all numbers closed", set.all());
        send(new.near, 1);
        say("the new one", set.all());
        close(ends.far);
        say("still there", set.all());
        close(new.far);
        say("none", set.all());
        close(new.near);
        close(ends.near);
    }
}

pub fn closed_alone() {
    let set = Set::new();
    for round in 0..5 {
        let ends = warm();
        say("add", set.add(ends.far, EPOLLIN, round));
        send(ends.near, 1);
        if round % 2 == 0 {
            say("data", set.now());
        }
        settle();
        close(ends.far);
        say("closed", set.now());
        close(ends.near);
    }
}

/// dup2 over a member.
pub fn replaced_number() {
    let (one, two) = (warm(), warm());
    let set = Set::new();
    set.add(one.far, EPOLLIN, 1);
    set.add(two.far, EPOLLIN, 2);
    // SAFETY: plain numbers.
    assert_eq!(unsafe { libc::dup2(two.far, one.far) }, one.far);
    say("quiet", set.now());
    send(two.near, 1);
    say("two", set.now());
    say("the number is free", set.add(one.far, EPOLLIN, 3));
    say("two and three", set.all());
    say("closed at the other end", recv(one.near, 1));
    close(two.far);
    say("still both", set.all());
    recv(one.far, 10);
    say("read", set.all());
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

/// More numbers asked for than the set has bits, as programs do that ask for all that they may have:
/// nothing beyond the set is read or written.
pub fn all_numbers_by_select() {
    tests::sock::allow_fds(20_000).expect("limit");
    let ends = warm();
    let page = 4096;
    let (read, write) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a mapping of our own; its second page can only be read.
    let set = unsafe {
        let base = libc::mmap(std::ptr::null_mut(), 2 * page, write, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED);
        let second = base.cast::<u8>().add(page);
        assert_eq!(libc::mprotect(second.cast(), page, read), 0);
        second.sub(size_of::<libc::fd_set>()).cast::<libc::fd_set>()
    };
    for fd in [ends.far, 0] {
        for data in [false, true] {
            if data && fd == ends.far {
                send(ends.near, 1);
                settle();
            }
            let mut time = libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            };
            let none = std::ptr::null_mut();
            // SAFETY: the set is as long as a set is.
            let n = unsafe {
                libc::FD_ZERO(set);
                libc::FD_SET(fd, set);
                libc::select(20_000, set, none, none, &mut time)
            };
            say(format!("{} {data}", fd == 0), result(n as isize));
        }
    }
}

/// Numbers beyond a small fd_set.
pub fn high_numbers() {
    tests::sock::allow_fds(4000).expect("limit");
    let ends = warm();
    // SAFETY: plain numbers.
    let far = unsafe { libc::fcntl(ends.far, libc::F_DUPFD, 2500) };
    close(ends.far);
    say("number", far);
    let set = Set::new();
    set.add(far, EPOLLIN, 1);
    for _ in 0..2 {
        say(
            "quiet",
            format!(
                "{} {}",
                select_one(far, 5),
                bits(poll_one(far, ALL, 5).into())
            ),
        );
        send(ends.near, 1);
        say(
            "data",
            format!(
                "{} {}",
                select_one(far, 500),
                bits(poll_one(far, ALL, 5).into())
            ),
        );
        say("set", set.now());
        recv(far, 10);
    }
    // More bits than there are numbers: the kernel looks at no more than the table of numbers has.
    let mut few = [0u64; 16];
    few[ends.near as usize / 64] |= 1 << (ends.near % 64);
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let none = std::ptr::null_mut();
    // SAFETY: the set has bits for all numbers in it.
    let n = unsafe { libc::select(1024, none, few.as_mut_ptr().cast(), none, &mut time) };
    say("select", result(n as isize));
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
