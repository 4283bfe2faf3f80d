//! Results that once depended on the carrier: `regress CASE` runs one of them on a connection that
//! it has with itself, and prints what it saw. The test runs it on the kernel and on rings.

use std::fmt::Debug;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use tests::args::Args;
use tests::sock;

/// What is done with the two ends.
type Case = fn(TcpStream, TcpStream);

const CASES: &[(&str, Case)] = &[
    ("send_after_close", send_after_close),
    ("close_after_shutdown", close_after_shutdown),
    ("send_buffer", send_buffer),
    ("address_space", address_space),
    ("data_space", data_space),
    ("no_descriptors", no_descriptors),
    ("set_of_two_processes", set_of_two_processes),
    ("part_of_all", part_of_all),
];

fn main() {
    let name = Args::from_env().role().to_owned();
    let case = CASES.iter().find(|(known, _)| *known == name);
    let (_, case) = case.unwrap_or_else(|| panic!("no case {name:?}"));
    let (near, far) = connection();
    case(near, far);
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connect");
    let (far, _) = listener.accept().expect("accept");
    (near, far)
}

fn show(what: &str, result: io::Result<impl Debug>) {
    match result {
        Ok(value) => println!("{what}: {value:?}"),
        Err(error) => println!("{what}: error {:?}", error.kind()),
    }
}

/// Sends one way and receives: the direction is then on its ring, if there is one.
fn talk(from: &TcpStream, to: &TcpStream) {
    sock::send(from.as_raw_fd(), b"hello", 0).expect("send");
    let mut bytes = [0; 5];
    sock::recv(to.as_raw_fd(), &mut bytes, libc::MSG_WAITALL).expect("receive");
}

/// Waits for an error or hang-up, a second long.
fn events_of(fd: RawFd) -> io::Result<i16> {
    let mut fds = [sock::pollfd(fd, 0)];
    sock::poll(&mut fds, 1000).map(|_| fds[0].revents)
}

/// The first send after the peer's close is taken and draws a reset, which the second must see.
fn send_after_close(near: TcpStream, far: TcpStream) {
    talk(&near, &far);
    talk(&far, &near);
    drop(far);
    let fd = near.as_raw_fd();
    show("first", sock::send(fd, b"x", libc::MSG_NOSIGNAL));
    show("events", events_of(fd));
    show("second", sock::send(fd, b"x", libc::MSG_NOSIGNAL));
}

/// Who has read all that the peer sent before its shutdown closes without a reset.
fn close_after_shutdown(near: TcpStream, far: TcpStream) {
    talk(&far, &near);
    sock::send(near.as_raw_fd(), b"hello", 0).expect("send");
    near.shutdown(Shutdown::Write).expect("shutdown");
    let mut bytes = [0; 5];
    show("far", sock::recv(far.as_raw_fd(), &mut bytes, 0));
    sock::send(far.as_raw_fd(), b"world", 0).expect("send");
    drop(far);
    for _ in 0..2 {
        show("near", sock::recv(near.as_raw_fd(), &mut bytes, 0));
    }
}

/// A program that has set small buffers is not taken megabytes from, and one that has not is.
fn send_buffer(near: TcpStream, far: TcpStream) {
    talk(&near, &far);
    talk(&far, &near);
    set_buffer(&near, libc::SO_SNDBUF);
    set_buffer(&far, libc::SO_RCVBUF);
    println!("small: {}", absorbed(&near) < 100_000);
    println!("usual: {}", absorbed(&far) > 2_000_000);
}

fn set_buffer(end: &TcpStream, option: libc::c_int) {
    let bytes: libc::c_int = 4096;
    // SAFETY: the option takes an int, whose size is told.
    let result = unsafe {
        libc::setsockopt(
            end.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "setsockopt");
}

/// Bytes that are taken while nobody reads. The kernel moves them on in the background: it is asked
/// until it has taken none for a while.
fn absorbed(end: &TcpStream) -> usize {
    let piece = [0; 10_000];
    let (mut total, mut refused) = (0, 0);
    while refused < 20 {
        match sock::send(end.as_raw_fd(), &piece, libc::MSG_DONTWAIT) {
            Ok(n) => (total, refused) = (total + n, 0),
            Err(_) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    total
}

/// A limit of address space is the program's own: it has as much room as it asked for, and no more.
fn address_space(near: TcpStream, far: TcpStream) {
    limited(near, far, libc::RLIMIT_AS);
}

fn data_space(near: TcpStream, far: TcpStream) {
    limited(near, far, libc::RLIMIT_DATA);
}

fn limited(near: TcpStream, far: TcpStream, resource: libc::__rlimit_resource_t) {
    const MIB: usize = 1 << 20;
    talk(&near, &far);
    let mut limit = libc::rlimit {
        rlim_cur: 200 << 20,
        rlim_max: 300 << 20,
    };
    let mut seen = limit;
    // SAFETY: limits that live across the calls.
    unsafe {
        println!("set: {}", libc::setrlimit(resource, &limit));
        println!("get: {}", libc::getrlimit(resource, &mut seen));
        println!("limit: {} {}", seen.rlim_cur, seen.rlim_max);
        limit.rlim_cur += 1;
        println!("both: {}", libc::prlimit(0, resource, &limit, &mut seen));
        println!("before: {} {}", seen.rlim_cur, seen.rlim_max);
    }
    for size in [1, 100, 700, 1500] {
        println!("{size} MiB: {}", mapped(size * MIB));
    }
    talk(&near, &far);
    talk(&far, &near);
}

/// Whether there is room for a mapping.
fn mapped(size: usize) -> bool {
    // SAFETY: an anonymous mapping, which is gone again at once.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let base = libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0);
        base != libc::MAP_FAILED && libc::munmap(base, size) == 0
    }
}

/// A process that may open nothing more, as in a sandbox, still receives and polls: first with a
/// connection that it shares, then with its own. It is a child, for it can report nothing, nor count
/// itself out of what it shares; its parent goes on.
fn no_descriptors(near: TcpStream, far: TcpStream) {
    talk(&near, &far);
    let child = child(|| {
        let (own_near, own_far) = connection();
        talk(&own_near, &own_far);
        talk(&own_far, &own_near);
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a limit that lives across the call.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) };
        println!("set: {set}");
        for (near, far) in [(&near, &far), (&own_near, &own_far)] {
            late(near, far);
        }
    });
    println!("status: {}", status_of(child));
    let (near, far) = connection();
    talk(&near, &far);
}

/// Bytes that come when somebody sleeps for them, in both ways to sleep.
fn late(near: &TcpStream, far: &TcpStream) {
    let later = || std::thread::sleep(Duration::from_millis(30));
    let mut bytes = [0; 5];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                later();
                sock::send(far.as_raw_fd(), b"later", 0).expect("send");
            }
        });
        show("late", sock::recv(near.as_raw_fd(), &mut bytes, 0));
        let one = &mut [sock::pollfd(near.as_raw_fd(), libc::POLLIN)];
        show("poll", sock::poll(one, 1000));
    });
    show("rest", sock::recv(near.as_raw_fd(), &mut bytes, 0));
}

/// A connection comes into an epoll set that another process holds too, when its bytes are there and
/// the peer sleeps for the answer.
fn set_of_two_processes(near: TcpStream, far: TcpStream) {
    talk(&near, &far);
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("an address");
    // SAFETY: a plain number.
    let set = unsafe { libc::epoll_create1(0) };
    let holder = child(|| std::thread::sleep(Duration::from_secs(3)));
    let peer = child(move || {
        let end = TcpStream::connect(address).expect("connect");
        sock::send(end.as_raw_fd(), b"question", 0).expect("send");
        let mut bytes = [0; 6];
        let answer = sock::recv(end.as_raw_fd(), &mut bytes, 0);
        assert_eq!(answer.expect("receive"), 6);
    });
    let (end, _) = listener.accept().expect("accept");
    std::thread::sleep(Duration::from_millis(100));
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 7,
    };
    // SAFETY: one event, which lives across the calls.
    unsafe {
        let fd = end.as_raw_fd();
        libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &mut event);
        event.events = 0;
        println!("told: {}", libc::epoll_wait(set, &mut event, 1, 2000));
    }
    println!("events: {}", { event.events });
    let mut bytes = [0; 8];
    show("question", sock::recv(end.as_raw_fd(), &mut bytes, 0));
    show("answer", sock::send(end.as_raw_fd(), b"answer", 0));
    println!("peer: {}", status_of(peer));
    // SAFETY: our own child.
    unsafe { libc::kill(holder, libc::SIGKILL) };
    status_of(holder);
}

/// A receive that wants all of many bytes, and is asleep for the rest when the stream ends, is reset, or
/// the time is over: what came is its result, and the next one's is why no more did.
fn part_of_all(near: TcpStream, far: TcpStream) {
    talk(&near, &far);
    for end in ["reset", "end", "time", "shut"] {
        let (near, far) = connection();
        talk(&near, &far);
        talk(&far, &near);
        if end == "time" {
            let limit = Some(Duration::from_millis(100));
            near.set_read_timeout(limit).expect("a timeout");
        }
        let shut = near.try_clone().expect("dup");
        let other = std::thread::spawn(move || {
            let far = far;
            sock::send(far.as_raw_fd(), &[7; 40], 0).expect("send");
            std::thread::sleep(Duration::from_millis(50));
            sock::send(far.as_raw_fd(), &[8; 20], 0).expect("send");
            std::thread::sleep(Duration::from_millis(150));
            match end {
                "reset" => reset(far),
                "end" => drop(far),
                "shut" => shut.shutdown(Shutdown::Read).expect("shutdown"),
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        });
        let mut bytes = [0; 100];
        let got = sock::recv(near.as_raw_fd(), &mut bytes, libc::MSG_WAITALL);
        let right = bytes[..40] == [7; 40] && bytes[40..60] == [8; 20];
        show(end, got.map(|got| (got, right)));
        other.join().expect("the other end");
        show(
            end,
            sock::recv(near.as_raw_fd(), &mut bytes, libc::MSG_WAITALL),
        );
        show(
            end,
            sock::recv(near.as_raw_fd(), &mut bytes, libc::MSG_DONTWAIT),
        );
    }
}

/// Closes so that the peer gets a reset.
fn reset(end: TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the option takes this struct, whose size is told.
    let result = unsafe {
        libc::setsockopt(
            end.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "setsockopt");
}

/// A child that does this and ends.
fn child(work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            work();
            std::process::exit(0)
        }
        child => child,
    }
}

fn status_of(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: a status that lives across the call.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status
}
