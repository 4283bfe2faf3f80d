//! Sets and processes: forked, passed on, kept over exec; a peer that dies.

use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT};
use std::io::{Read, Write};
use tests::sock::{Forked, fork, wait_child};

use crate::set::Set;
use crate::world::*;

/// Runs `act` in a forked child, waits for it, and goes on.
fn in_child(act: impl FnOnce()) {
    match fork().expect("fork") {
        Forked::Child => {
            act();
            std::process::exit(0);
        }
        Forked::Parent(pid) => assert_eq!(wait_child(pid).expect("wait"), 0, "child"),
    }
}

fn watched() -> (Ends, Ends, Set) {
    let (one, two, set) = (warm(), warm(), Set::new());
    set.add(one.far, EPOLLIN, 1);
    set.add(two.far, EPOLLIN | EPOLLONESHOT, 2);
    (one, two, set)
}

/// The child waits on the parent's set; the parent changed it in between.
pub fn set_used_by_child() {
    let (one, two, set) = watched();
    let (three, mut turn) = (warm(), UnixStream::pair().expect("socketpair"));
    match fork().expect("fork") {
        Forked::Child => {
            turn.1.read_exact(&mut [0]).expect("turn");
            say("child", set.now());
            say("child", set.now());
            std::process::exit(0);
        }
        Forked::Parent(pid) => {
            set.modify(one.far, EPOLLIN | EPOLLOUT, 11);
            set.add(three.far, EPOLLIN, 3);
            send(one.near, 1);
            send(two.near, 1);
            send(three.near, 1);
            turn.0.write_all(b"x").expect("turn");
            assert_eq!(wait_child(pid).expect("wait"), 0, "child");
        }
    }
    say("parent", set.now());
    for ends in [&one, &two, &three] {
        say("recv", recv(ends.far, 10));
    }
    say("read", set.now());
    set.modify(two.far, EPOLLIN | EPOLLONESHOT, 22);
    set.modify(one.far, EPOLLIN, 12);
    say("changed", set.now());
    for ends in [&one, &two, &three] {
        send(ends.near, 1);
    }
    say("again", set.now());
}

/// Parent and child wait in turn, several times, on data that comes in between.
pub fn set_used_by_both() {
    let (one, two, set) = watched();
    let mut turn = UnixStream::pair().expect("socketpair");
    let rounds = 6;
    match fork().expect("fork") {
        Forked::Child => {
            for round in 0..rounds {
                turn.1.read_exact(&mut [0]).expect("turn");
                say(format!("{round} child"), set.now());
                if round % 2 == 0 {
                    say("recv", recv(one.far, 10));
                }
                turn.1.write_all(b"x").expect("turn");
            }
            std::process::exit(0);
        }
        Forked::Parent(pid) => {
            for round in 0..rounds {
                send(one.near, 1);
                if round == 2 {
                    send(two.near, 1);
                }
                say(format!("{round} parent"), set.now());
                turn.0.write_all(b"x").expect("turn");
                turn.0.read_exact(&mut [0]).expect("turn");
                say(format!("{round} parent after"), set.now());
                if round % 2 == 1 {
                    say("recv", recv(one.far, 10));
                }
                if round == 3 {
                    recv(two.far, 10);
                    say("re-arm", set.modify(two.far, EPOLLIN | EPOLLONESHOT, 22));
                }
            }
            assert_eq!(wait_child(pid).expect("wait"), 0, "child");
        }
    }
    send(two.near, 1);
    say("parent alone", set.now());
}

/// As daemon() does: the parent ends, the child goes on with everything.
pub fn set_of_a_daemon() {
    let (one, two, set) = watched();
    send(one.near, 1);
    settle();
    let mut done = UnixStream::pair().expect("socketpair");
    in_child(|| match fork().expect("fork") {
        Forked::Parent(_) => {}
        Forked::Child => {
            say("daemon", set.now());
            recv(one.far, 10);
            send(one.near, 1);
            send(two.near, 1);
            say("daemon", set.now());
            say("daemon", set.now());
            set.modify(two.far, EPOLLIN, 2);
            say("daemon", set.now());
            done.1.write_all(b"x").expect("done");
            std::process::exit(0);
        }
    });
    done.0.read_exact(&mut [0]).expect("done");
    say("first", set.now());
}

/// The same with connections that have carried nothing before: the child, alone with them, talks on them
/// before it first uses the set.
pub fn young_members_of_a_daemon() {
    let (one, two, set) = (fresh(), fresh(), Set::new());
    set.add(one.far, EPOLLIN, 1);
    set.add(two.far, EPOLLIN | EPOLLONESHOT, 2);
    let mut done = UnixStream::pair().expect("socketpair");
    match fork().expect("fork") {
        Forked::Parent(_) => {
            for fd in [one.near, one.far, two.near, two.far, set.0] {
                close(fd);
            }
            drop(done.1);
            // Nobody is left at the other end when the daemon has ended.
            let mut rest = Vec::new();
            done.0.read_to_end(&mut rest).expect("done");
            return;
        }
        Forked::Child => drop(done.0),
    }
    settle();
    one.warm_up();
    two.warm_up();
    send(one.near, 1);
    send(two.near, 1);
    say("daemon", set.wait(1000));
    say("daemon", set.now());
    recv(one.far, 10);
    recv(two.far, 10);
    say("read", set.now());
    send(one.near, 1);
    send(two.near, 1);
    say("again", set.now());
    set.modify(two.far, EPOLLIN | EPOLLONESHOT, 22);
    say("re-armed", set.wait(1000));
    done.1.write_all(b"x").expect("done");
    std::process::exit(0);
}

/// Sends a number over a Unix socket.
fn pass(socket: RawFd, fd: RawFd) {
    let mut byte = [0u8; 1];
    let mut piece = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut space = [0u64; 8];
    // SAFETY: all-zero is a valid header; the control buffer has room for one number.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut piece;
        header.msg_iovlen = 1;
        header.msg_control = space.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let control = libc::CMSG_FIRSTHDR(&header);
        (*control).cmsg_level = libc::SOL_SOCKET;
        (*control).cmsg_type = libc::SCM_RIGHTS;
        (*control).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(control).cast::<RawFd>().write_unaligned(fd);
        assert_eq!(libc::sendmsg(socket, &header, 0), 1);
    }
}

fn receive(socket: RawFd) -> RawFd {
    let mut byte = [0u8; 1];
    let mut piece = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut space = [0u64; 8];
    // SAFETY: all-zero is a valid header; the control buffer has room for one number.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut piece;
        header.msg_iovlen = 1;
        header.msg_control = space.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(4) as usize;
        assert_eq!(libc::recvmsg(socket, &mut header, 0), 1);
        libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&header))
            .cast::<RawFd>()
            .read_unaligned()
    }
}

/// A process that was forked before there was a set gets it.
pub fn set_passed_on() {
    use std::os::fd::AsRawFd;
    let turn = UnixStream::pair().expect("socketpair");
    match fork().expect("fork") {
        Forked::Child => {
            let mut line = turn.1;
            let set = Set(receive(line.as_raw_fd()));
            for round in 0..3 {
                line.read_exact(&mut [0]).expect("turn");
                say(format!("{round} other"), set.now());
                line.write_all(b"x").expect("turn");
            }
            std::process::exit(0);
        }
        Forked::Parent(pid) => {
            let mut line = turn.0;
            let (one, _two, set) = watched();
            send(one.near, 1);
            settle();
            pass(line.as_raw_fd(), set.0);
            for round in 0..3 {
                say(format!("{round} first"), set.now());
                line.write_all(b"x").expect("turn");
                line.read_exact(&mut [0]).expect("turn");
                recv(one.far, 10);
                say(format!("{round} read"), set.now());
                send(one.near, 1);
            }
            assert_eq!(wait_child(pid).expect("wait"), 0, "child");
        }
    }
}

/// The set survives an exec in a child; both programs wait on it.
pub fn set_kept_over_exec() {
    let (one, two, set) = watched();
    // SAFETY: plain numbers.
    assert_eq!(unsafe { libc::fcntl(set.0, libc::F_SETFD, 0) }, 0);
    for round in 0..2 {
        send(one.near, 1);
        settle();
        let me = std::env::current_exe().expect("path");
        let status = std::process::Command::new(me)
            .arg("exec")
            .env("SET", set.0.to_string())
            .status()
            .expect("exec");
        assert!(status.success());
        say(format!("{round} first"), set.now());
        recv(one.far, 10);
        say(format!("{round} read"), set.now());
        send(two.near, 1);
        say(format!("{round} two"), set.now());
    }
}

/// The program that [`set_kept_over_exec`] starts.
pub fn after_exec() {
    let set = std::env::var("SET")
        .expect("SET")
        .parse()
        .expect("a number");
    say("other program", Set(set).now());
}

/// A child holds the connection when its number is closed here: the set still tells of it.
pub fn closed_while_a_child_holds_it() {
    let (ends, set) = (warm(), Set::new());
    set.add(ends.far, EPOLLIN | EPOLLET, 1);
    let mut turn = UnixStream::pair().expect("socketpair");
    match fork().expect("fork") {
        Forked::Child => {
            turn.1.read_exact(&mut [0]).expect("turn");
            std::process::exit(0);
        }
        Forked::Parent(pid) => {
            close(ends.far);
            send(ends.near, 1);
            say("closed here", set.now());
            turn.0.write_all(b"x").expect("turn");
            assert_eq!(wait_child(pid).expect("wait"), 0, "child");
            say("closed there", set.now());
        }
    }
}

/// The other end dies without a word: whoever looks sees it.
pub fn killed_peer() {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::IntoRawFd;
    for way in ["recv", "poll", "select", "level", "edge", "later"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        match fork().expect("fork") {
            Forked::Child => {
                let mut stream = TcpStream::connect(address).expect("connect");
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() {
                    stream.write_all(&byte).expect("echo");
                }
                std::process::exit(0);
            }
            Forked::Parent(pid) => {
                let (stream, _) = listener.accept().expect("accept");
                stream.set_nodelay(true).expect("TCP_NODELAY");
                stream.set_nonblocking(true).expect("O_NONBLOCK");
                let fd = stream.into_raw_fd();
                for _ in 0..50 {
                    assert_eq!(send(fd, 1), "1");
                    assert_eq!(poll_one(fd, libc::POLLIN, 5000), libc::POLLIN);
                    assert_eq!(recv(fd, 10), "1");
                }
                let set = Set::new();
                set.add(fd, EPOLLIN | if way == "edge" { EPOLLET } else { 0 }, 1);
                say("quiet", recv(fd, 1));
                say("quiet", set.now());
                std::thread::sleep(std::time::Duration::from_millis(20));
                // SAFETY: our own child, not reaped yet.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                wait_child(pid).expect("wait");
                settle();
                let found = match way {
                    "poll" => bits(poll_one(fd, ALL, 0).into()),
                    "select" => select_one(fd, 0),
                    "level" | "edge" => set.now(),
                    _ => String::new(),
                };
                say(way, found);
                say(way, recv(fd, 1));
                say(way, bits(poll_one(fd, ALL, 0).into()));
                close(fd);
            }
        }
    }
}
