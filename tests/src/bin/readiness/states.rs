//! Every state of a connection, as poll, select and a fresh epoll set tell it.

use libc::{SHUT_RD, SHUT_RDWR, SHUT_WR};

use tests::sock::set_linger_zero;

use crate::set::Set;
use crate::world::*;

/// All answers about one end.
fn show(what: &str, fd: i32) {
    settle();
    say(format!("{what}, all"), bits(poll_one(fd, ALL, 0).into()));
    say(format!("{what}, none"), bits(poll_one(fd, 0, 0).into()));
    for bit in (0..16)
        .map(|n| 1u16 << n)
        .filter(|bit| *bit as i16 & ALL != 0)
    {
        let found = poll_one(fd, bit as i16, 0);
        say(format!("{what}, {}", bits(bit.into())), bits(found.into()));
    }
    say(
        format!("{what}, waiting"),
        bits(poll_one(fd, ALL, 10).into()),
    );
    say(
        format!("{what}, waiting for input"),
        bits(poll_one(fd, libc::POLLIN, 10).into()),
    );
    say(format!("{what}, select"), select_one(fd, 0));
    for (name, mode) in [
        ("level", 0),
        ("edge", libc::EPOLLET),
        ("one-shot", libc::EPOLLONESHOT),
    ] {
        let set = Set::new();
        let asked = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP;
        assert_eq!(set.add(fd, asked | mode, 1), "0");
        say(format!("{what}, {name}"), set.wait(0));
        say(format!("{what}, {name} again"), set.wait(0));
        set.close();
    }
    let set = Set::new();
    assert_eq!(set.add(fd, 0, 1), "0");
    say(format!("{what}, set that asks for nothing"), set.wait(0));
    set.close();
}

fn both(what: &str, ends: &Ends) {
    show(&format!("{what}: near"), ends.near);
    show(&format!("{what}: far"), ends.far);
}

pub fn quiet_and_with_data() {
    let ends = warm();
    both("quiet", &ends);
    send(ends.near, 10);
    both("ten bytes", &ends);
    recv(ends.far, 4);
    both("six bytes", &ends);
    recv(ends.far, 100);
    both("read", &ends);
}

pub fn half_closed() {
    let ends = warm();
    send(ends.near, 10);
    shutdown(ends.near, SHUT_WR);
    both("bytes and FIN", &ends);
    say("recv", recv(ends.far, 100));
    both("FIN", &ends);
    say("recv", recv(ends.far, 100));
    both("FIN read", &ends);
    send(ends.far, 5);
    both("answer", &ends);
    shutdown(ends.far, SHUT_WR);
    both("answer and FIN", &ends);
    say("recv", recv(ends.near, 100));
    say("recv", recv(ends.near, 100));
    both("all closed", &ends);
    say("send", send(ends.far, 1));
}

pub fn reading_shut() {
    let ends = warm();
    shutdown(ends.far, SHUT_RD);
    both("far does not read", &ends);
    say("recv", recv(ends.far, 10));
    say("recv", recv(ends.far, 10));
    send(ends.near, 3);
    both("bytes all the same", &ends);
    say("recv", recv(ends.far, 10));
    say("recv", recv(ends.far, 10));
    say("back", send(ends.far, 2));
    both("back", &ends);
}

/// Without a look in between.
pub fn reading_shut_unseen() {
    for how in [SHUT_RD, SHUT_RDWR] {
        let ends = warm();
        send(ends.near, 5);
        settle();
        say("shut", shutdown(ends.far, how));
        say("recv", recv(ends.far, 3));
        say("recv", recv(ends.far, 10));
        say("recv", recv(ends.far, 10));
        say("poll", bits(poll_one(ends.far, libc::POLLIN, 0).into()));
    }
}

pub fn shut_both_ways() {
    let ends = warm();
    shutdown(ends.near, SHUT_RDWR);
    both("near shut", &ends);
    say("recv", recv(ends.near, 1));
    say("send", send(ends.near, 1));
    shutdown(ends.far, SHUT_RDWR);
    both("both shut", &ends);
}

pub fn peer_closed() {
    let ends = warm();
    close(ends.far);
    show("closed", ends.near);
    say("recv", recv(ends.near, 1));
    show("read", ends.near);
    say("send", send(ends.near, 1));
    show("after the reset", ends.near);
    say("SO_ERROR", so_error(ends.near));
    show("error taken", ends.near);
    say("send", send(ends.near, 1));
    say("recv", recv(ends.near, 1));
}

pub fn peer_closed_with_bytes_for_us() {
    let ends = warm();
    send(ends.far, 10);
    close(ends.far);
    show("closed", ends.near);
    say("recv", recv(ends.near, 4));
    show("some read", ends.near);
    say("recv", recv(ends.near, 100));
    show("all read", ends.near);
}

pub fn peer_closed_with_bytes_unread() {
    let ends = warm();
    send(ends.near, 10);
    settle();
    close(ends.far);
    show("reset", ends.near);
    say("SO_ERROR", so_error(ends.near));
    show("error taken", ends.near);
    say("recv", recv(ends.near, 1));
    say("send", send(ends.near, 1));
}

pub fn reset_by_linger() {
    let ends = warm();
    send(ends.far, 10);
    settle();
    set_linger_zero(ends.far);
    close(ends.far);
    show("reset", ends.near);
    say("recv", recv(ends.near, 100));
    show("error read", ends.near);
    say("recv", recv(ends.near, 100));
    say("SO_ERROR", so_error(ends.near));
}

pub fn urgent_byte() {
    let ends = warm();
    say("urgent", send_urgent(ends.near));
    both("urgent", &ends);
    say("more", send(ends.near, 5));
    both("urgent and more", &ends);
    say("recv", recv(ends.far, 100));
    say("recv", recv(ends.far, 100));
    both("read", &ends);
}

pub fn receive_low_water_mark() {
    let ends = warm();
    say(
        "set",
        set(ends.far, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 10),
    );
    send(ends.near, 9);
    both("one too few", &ends);
    send(ends.near, 1);
    both("enough", &ends);
    recv(ends.far, 5);
    both("five left", &ends);
    say("set", set(ends.far, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 3));
    both("mark lowered", &ends);
    recv(ends.far, 4);
    both("one left", &ends);
    shutdown(ends.near, SHUT_WR);
    both("FIN", &ends);
}

/// How much it takes differs; that it says so, and when it takes more again, does not.
pub fn full_and_drained() {
    let ends = warm();
    let sent = fill(ends.near);
    both("full", &ends);
    say("send", send(ends.near, 1));
    say("left", drain(ends.far, sent));
    both("drained", &ends);
    say("send", send(ends.near, 1));
    say("recv", recv(ends.far, 10));
    both("used", &ends);
}

pub fn never_connected() {
    for listens in [false, true] {
        // SAFETY: plain numbers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
        if listens {
            // SAFETY: plain numbers.
            assert_eq!(unsafe { libc::listen(fd, 5) }, 0);
        }
        show(if listens { "listening" } else { "fresh" }, fd);
        close(fd);
    }
}

pub fn closed_number() {
    let ends = warm();
    close(ends.far);
    say("poll", bits(poll_one(ends.far, ALL, 0).into()));
    say("negative", bits(poll_one(-1, ALL, 0).into()));
    say("select", select_one(ends.far, 0));
}
