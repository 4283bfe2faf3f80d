//! What a number means: closed, duplicated, used again, and beyond what fits in an fd_set.

use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLRDHUP};

use crate::set::Set;
use crate::world::*;

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
