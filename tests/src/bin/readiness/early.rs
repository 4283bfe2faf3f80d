//! Registrations that are older than the connection: made before bind, listen or connect, by other numbers, in
//! several sets, before a fork or an exec, and waits that have begun before connect has ended.

use std::ffi::c_int;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP};
use tests::sock::{Forked, fork, set_nonblocking, wait_child};

use crate::set::Set;
use crate::world::*;

/// A TCP socket that does not block.
fn socket() -> RawFd {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: plain numbers.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, 0) };
    assert!(fd >= 0);
    set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    fd
}

fn address(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    }
}

fn connect(fd: RawFd, to: SocketAddr) -> String {
    let (to, size) = (address(to.port()), size_of::<libc::sockaddr_in>());
    // SAFETY: a local of that size.
    let done = unsafe { libc::connect(fd, (&raw const to).cast(), size as libc::socklen_t) };
    result(done as isize)
}

/// A listener, and its address.
fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    (listener, address)
}

/// The other end of what has been connected.
fn accept(listener: &TcpListener) -> RawFd {
    let (far, _) = listener.accept().expect("accept");
    far.set_nodelay(true).expect("TCP_NODELAY");
    far.set_nonblocking(true).expect("O_NONBLOCK");
    far.into_raw_fd()
}

/// Connects what was registered, and gives it the chance to leave the kernel.
fn connect_and_warm(near: RawFd) -> Ends {
    let (listener, address) = listen();
    say("connect", connect(near, address));
    let far = accept(&listener);
    let ends = Ends { near, far };
    ends.warm_up();
    ends
}

/// What a set tells while bytes come and are read, and at the end.
fn traffic(set: Set, ends: &Ends) {
    say("warm", set.now());
    for round in 0..3 {
        send(ends.far, 10);
        say(format!("{round} ten bytes"), set.now());
        say(format!("{round} still"), set.now());
        say(format!("{round} read"), recv(ends.near, 100));
        say(format!("{round} empty"), recv(ends.near, 100));
        say(format!("{round} quiet"), set.now());
    }
}

fn end(set: Set, ends: &Ends) {
    shutdown(ends.far, libc::SHUT_WR);
    say("FIN", set.now());
    close(ends.far);
    close(ends.near);
    say("closed", set.now());
}

const MODES: [c_int; 4] = [
    EPOLLIN,
    EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
    EPOLLIN | EPOLLONESHOT,
    EPOLLIN | EPOLLRDHUP | EPOLLET | EPOLLONESHOT,
];

pub fn before_connect() {
    for mode in MODES {
        let (near, set) = (socket(), Set::new());
        say("add", set.add(near, mode, 1));
        say("not connected", set.now());
        let ends = connect_and_warm(near);
        say("change", set.modify(near, mode, 2));
        traffic(set, &ends);
        end(set, &ends);
    }
}

/// As nginx does: nothing is changed after connect.
pub fn before_connect_and_never_again() {
    for mode in [MODES[0], MODES[1]] {
        let (near, set) = (socket(), Set::new());
        say("add", set.add(near, mode, 1));
        let (listener, address) = listen();
        say("connect", connect(near, address));
        let ends = Ends {
            near,
            far: accept(&listener),
        };
        say("connected", set.now());
        for round in 0..40 {
            send(ends.near, 40);
            assert_eq!(poll_one(ends.far, libc::POLLIN, 5000), libc::POLLIN);
            recv(ends.far, 100);
            send(ends.far, 40);
            say(format!("{round} answer"), set.wait(5000));
            recv(ends.near, 100);
            recv(ends.near, 100);
        }
        end(set, &ends);
    }
}

/// Removed, added again and changed before it is connected, and at the moment when it is.
pub fn changed_before_connect() {
    let (near, set) = (socket(), Set::new());
    say("add", set.add(near, EPOLLIN | EPOLLET, 1));
    say("add twice", set.add(near, EPOLLIN, 1));
    say("change", set.modify(near, EPOLLIN | EPOLLOUT, 2));
    say("not connected", set.now());
    say("remove", set.remove(near));
    say("remove twice", set.remove(near));
    say("change nothing", set.modify(near, EPOLLIN, 2));
    say("removed", set.now());
    say("add again", set.add(near, EPOLLIN | EPOLLET, 3));
    let (listener, address) = listen();
    say("connect", connect(near, address));
    say("under way", set.modify(near, EPOLLOUT, 4));
    say("connected", set.now());
    let ends = Ends {
        near,
        far: accept(&listener),
    };
    say("told so", set.modify(near, EPOLLIN, 5));
    ends.warm_up();
    traffic(set, &ends);
    end(set, &ends);
}

/// Data that is like our own, and one-shot members with the same data.
pub fn unusual_before_connect() {
    for data in [u64::MAX, 1 << 63, 0] {
        let (near, other, set) = (socket(), socket(), Set::new());
        say("add", set.add(near, EPOLLIN | EPOLLONESHOT, data));
        say("add", set.add(other, EPOLLIN | EPOLLET, data));
        say("not connected", set.now());
        let (ends, others) = (connect_and_warm(near), connect_and_warm(other));
        say("change", set.modify(near, EPOLLIN | EPOLLONESHOT, data));
        traffic(set, &ends);
        traffic(set, &others);
        end(set, &ends);
        end(set, &others);
    }
}

pub fn several_sets_before_connect() {
    let (near, one, two, outer) = (socket(), Set::new(), Set::new(), Set::new());
    say("one", one.add(near, EPOLLIN, 1));
    say("two", two.add(near, EPOLLIN | EPOLLRDHUP | EPOLLET, 2));
    say("outer", outer.add(two.0, EPOLLIN, 3));
    say("not connected", outer.now());
    let ends = connect_and_warm(near);
    for round in 0..3 {
        send(ends.far, 10);
        say(format!("{round} outer"), outer.now());
        say(format!("{round} one"), one.now());
        say(format!("{round} two"), two.now());
        recv(ends.near, 100);
        say(format!("{round} outer, read"), outer.now());
        say(format!("{round} one, read"), one.now());
    }
    end(one, &ends);
    say("two", two.now());
}

/// Two numbers for it before it is connected: either is good, and one closes.
pub fn duplicated_before_connect() {
    for registered_first in [true, false] {
        let (near, set) = (socket(), Set::new());
        let mut other = near;
        if registered_first {
            say("add", set.add(near, EPOLLIN | EPOLLET, 1));
            other = dup(near);
        } else {
            other = dup(other);
            say("add", set.add(other, EPOLLIN | EPOLLET, 1));
        }
        let ends = connect_and_warm(near);
        send(ends.far, 10);
        say("read by the other", recv(other, 4));
        say("told", set.now());
        say("read by the first", recv(near, 100));
        send(ends.far, 5);
        say("told again", set.now());
        close(near);
        say("the other lives", recv(other, 100));
        send(ends.far, 6);
        say("told of the other", set.now());
        say("read", recv(other, 100));
        let ends = Ends {
            near: other,
            far: ends.far,
        };
        end(set, &ends);
    }
}

/// Refused, and tried again with the same socket.
pub fn repeated_connect() {
    for mode in [EPOLLIN, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET] {
        let (near, set) = (socket(), Set::new());
        say("add", set.add(near, mode, 1));
        let (listener, nobody) = listen();
        drop(listener);
        for _ in 0..2 {
            say("connect", connect(near, nobody));
            say("refused", set.now());
            say("error", so_error(near));
            say("nothing", recv(near, 1));
        }
        let ends = connect_and_warm(near);
        traffic(set, &ends);
        end(set, &ends);
    }
}

/// It listens instead of connecting.
pub fn listens_instead() {
    let (near, set) = (socket(), Set::new());
    say("add", set.add(near, EPOLLIN, 1));
    let second = dup(near);
    let here = address(0);
    let mut found = here;
    let mut size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: locals of that size.
    unsafe {
        assert_eq!(libc::bind(near, (&raw const here).cast(), size), 0);
        say("listen", libc::listen(near, 5));
        assert_eq!(
            libc::getsockname(near, (&raw mut found).cast(), &mut size),
            0
        );
    }
    let address = SocketAddrV4::new([127, 0, 0, 1].into(), u16::from_be(found.sin_port));
    say("quiet", set.now());
    for listener in [near, second] {
        let client = socket();
        say("connect", connect(client, address.into()));
        say("somebody", set.now());
        // SAFETY: no address is asked for.
        let far = unsafe { libc::accept(listener, std::ptr::null_mut(), std::ptr::null_mut()) };
        set_nonblocking(far, true).expect("O_NONBLOCK");
        say("taken", set.now());
        let ends = Ends { near: client, far };
        ends.warm_up();
        say("add", set.add(far, EPOLLIN, 2));
        send(client, 3);
        say("bytes", set.now());
        say("read", recv(far, 10));
        close(client);
        close(far);
    }
    close(near);
    say("still listening", set.now());
    close(second);
    say("gone", set.now());
}

/// A socket that is registered, then shared by fork, then connected, by one of the two.
pub fn shared_before_connect() {
    for child_connects in [false, true] {
        let (near, set, (listener, address)) = (socket(), Set::new(), listen());
        set.add(near, EPOLLIN, 1);
        let mut turn = UnixStream::pair().expect("socketpair");
        match fork().expect("fork") {
            Forked::Child => {
                turn.1.read_exact(&mut [0]).expect("turn");
                if child_connects {
                    connect(near, address);
                    turn.1.write_all(b"x").expect("turn");
                    turn.1.read_exact(&mut [0]).expect("turn");
                }
                say("child", recv(near, 4));
                say("child's set", set.now());
                std::process::exit(0);
            }
            Forked::Parent(pid) => {
                let far = if child_connects {
                    turn.0.write_all(b"x").expect("turn");
                    turn.0.read_exact(&mut [0]).expect("turn");
                    accept(&listener)
                } else {
                    connect(near, address);
                    accept(&listener)
                };
                let ends = Ends { near, far };
                ends.warm_up();
                send(far, 10);
                say("parent's set", set.now());
                turn.0.write_all(b"x").expect("turn");
                assert_eq!(wait_child(pid).expect("wait"), 0, "child");
                say("rest", recv(near, 100));
                ends.warm_up();
                traffic(set, &ends);
                end(set, &ends);
            }
        }
    }
}

/// A set with a member that has carried little stays open over an exec, in which it is all that the program
/// has.
pub fn young_member_kept_over_exec() {
    let (near, set) = (socket(), Set::new());
    set.add(near, EPOLLIN, 1);
    let (listener, address) = listen();
    connect(near, address);
    let far = accept(&listener);
    for fd in [near, far, set.0] {
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }, 0);
    }
    let numbers = [near, far, set.0].map(|fd| fd.to_string());
    use std::os::unix::process::CommandExt;
    let me = std::env::current_exe().expect("path");
    let failed = std::process::Command::new(me)
        .arg("exec-young")
        .env("NUMBERS", numbers.join(" "))
        .exec();
    panic!("exec: {failed}");
}

/// The program that [`young_member_kept_over_exec`] becomes.
pub fn after_exec() {
    let numbers = std::env::var("NUMBERS").expect("NUMBERS");
    let numbers: Vec<RawFd> = numbers
        .split(' ')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let [near, far, set] = numbers[..] else {
        panic!("three numbers");
    };
    let ends = Ends { near, far };
    ends.warm_up();
    traffic(Set(set), &ends);
}

/// One thread is in connect, for the listener's queue is full; others wait for the same socket meanwhile.
pub fn waited_for_during_connect() {
    let ways: [(&str, Wait); 4] = [
        ("recv", |fd| recv(fd, 100)),
        ("poll", |fd| bits(poll_one(fd, libc::POLLIN, 20_000).into())),
        ("select", |fd| select_read(fd)),
        ("epoll", |fd| {
            let set = Set::new();
            set.add(fd, EPOLLIN, 1);
            set.wait(20_000)
        }),
    ];
    let waits = ways.map(|(name, wait)| (name, std::thread::spawn(move || during_connect(wait))));
    for (name, wait) in waits {
        say(name, wait.join().expect("thread"));
    }
}

/// A wait for bytes, and what it gave.
type Wait = fn(RawFd) -> String;

fn during_connect(wait: Wait) -> String {
    let listener = tests::sock::listen(("127.0.0.1".to_owned(), 0)).expect("listen");
    let address = listener.local_addr().expect("address");
    let queue = listener.into_raw_fd();
    // SAFETY: a plain number.
    assert_eq!(unsafe { libc::listen(queue, 0) }, 0);
    let filler = socket();
    connect(filler, address);
    settle();
    let near = socket();
    set_nonblocking(near, false).expect("blocking");
    let dialler = std::thread::spawn(move || connect(near, address));
    std::thread::sleep(Duration::from_millis(100));
    let waiter = std::thread::spawn(move || wait(near));
    std::thread::sleep(Duration::from_millis(100));
    let take = || {
        // SAFETY: no address is asked for.
        unsafe { libc::accept(queue, std::ptr::null_mut(), std::ptr::null_mut()) }
    };
    close(take());
    close(filler);
    let connected = dialler.join().expect("dialler");
    let far = take();
    // The other end has rings, if it can, before there is a byte for the waiter.
    for _ in 0..30 {
        assert_eq!(send(near, 1), "1");
        assert_eq!(recv(far, 1), "1");
    }
    send(far, 7);
    let woken = waiter.join().expect("waiter");
    close(far);
    close(near);
    close(queue);
    format!("{connected}, {woken}")
}

fn select_read(fd: RawFd) -> String {
    let mut entry = [libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }];
    let found = tests::sock::select(&mut entry).expect("select");
    format!("{found} {}", bits(entry[0].revents.into()))
}
